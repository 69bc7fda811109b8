//! Graphs that change, kept by a worker core while calls are answered.

mod node;

use nile_abi::Status;
use nile_interfaces::graph::{Acknowledgement, EdgeEvent, GraphClient, MOST_EVENTS};

const ERROR: u64 = (1 << 32) / 1000;

fn edge(sequence: u64, from: u64, to: u64) -> EdgeEvent {
    EdgeEvent { sequence, time: sequence, from, to, removes: false }
}

#[test]
fn ranks_follow_edges_while_calls_are_answered() {
    node::run(3, |stl| async move {
        let graph = GraphClient::find(&stl).await?;
        graph.create("web".into(), ERROR, 1000, 10_000, 0).await?;
        let again = graph.create("web".into(), ERROR, 1000, 10_000, 0).await.unwrap_err();
        assert_eq!(again.status, Status::Exists);
        let empty = graph.settled("web").await?;
        assert_eq!((empty.publication, empty.events), (0, 0));
        assert!(graph.top("web", 3).await?.is_empty());
        // Every vertex leads to the next, and two of three to the first.
        let events: Vec<EdgeEvent> =
            (0..9000).map(|at| edge(at, at, if at % 3 == 0 { at + 1 } else { 0 })).collect();
        for part in events.chunks(512) {
            let offered = graph.offer("web", 7, 0, Acknowledgement::Taken, part.into()).await?;
            assert_eq!((offered.new, offered.known), (part.len() as u64, 0));
        }
        let known = graph.offer("web", 7, 0, Acknowledgement::Taken, events[..512].into()).await?;
        assert_eq!((known.new, known.known, known.next), (0, 512, 9000));
        let state = graph.settled("web").await?;
        assert_eq!((state.events, state.behind, state.edges), (9000, 0, 9000));
        assert!(state.error <= ERROR && state.staleness_us == 0, "{state:?}");
        let top = graph.top("web", 2).await?;
        assert_eq!((top[0].vertex, top[0].certain), (0, true));
        assert_eq!(graph.rank("web", 0).await?, top[0].rank);
        assert_eq!(graph.distance("web", 3, 1).await?, Some(3));
        assert_eq!(graph.distance("web", 0, 8000).await?, None);
        let component = graph.component("web", 9).await?;
        assert_eq!((component.lowest, component.vertices), (0, 9000));
        // The edges to the first go: another vertex is at the top.
        let gone = events.iter().filter(|it| it.to == 0).zip(0..);
        let gone: Vec<EdgeEvent> = gone
            .map(|(it, sequence)| EdgeEvent { sequence, time: 1 << 20, removes: true, ..*it })
            .collect();
        for part in gone.chunks(512) {
            graph.offer("web", 8, 1 << 20, Acknowledgement::Taken, part.into()).await?;
        }
        let state = graph.settled("web").await?;
        assert_eq!(state.edges, 3000);
        assert_ne!(graph.top("web", 1).await?[0].vertex, 0);
        let sources = graph.sources("web", None).await?;
        assert_eq!(sources.iter().map(|it| it.next).collect::<Vec<_>>(), [9000, 6000]);
        assert!(graph.sources("web", Some(8)).await?.is_empty());
        let list = graph.list("").await?;
        assert_eq!((list.len(), &*list[0].name, list[0].events), (1, "web", 15_000));
        graph.remove("web").await?;
        assert_eq!(graph.state("web").await.unwrap_err().status, Status::NotFound);
        Ok(())
    });
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    node::run(3, |stl| async move {
        let graph = GraphClient::find(&stl).await?;
        graph.create("one".into(), ERROR, 1000, 2, 0).await?;
        let many = (0..=MOST_EVENTS as u64).map(|at| edge(at, 1, 2)).collect();
        let refused = graph.offer("one", 1, 0, Acknowledgement::Taken, many).await.unwrap_err();
        assert_eq!(refused.status, Status::Invalid);
        let ahead =
            graph.offer("one", 1, 0, Acknowledgement::Taken, vec![edge(50_000, 1, 2)]).await?;
        assert_eq!((ahead.new, ahead.ahead, ahead.next), (0, 1, 0));
        graph
            .offer("one", 1, 0, Acknowledgement::Taken, vec![edge(0, 1, 2), edge(1, 2, 3)])
            .await?;
        let state = graph.settled("one").await?;
        assert_eq!((state.vertices, state.edges, state.refused), (2, 1, 1));
        assert_eq!(graph.rank("one", 3).await.unwrap_err().status, Status::NotFound);
        assert_eq!(graph.component("one", 3).await.unwrap_err().status, Status::NotFound);
        for wrong in [graph.create("".into(), ERROR, 1, 1, 0), graph.create("x".into(), 0, 1, 1, 0)]
        {
            assert_eq!(wrong.await.unwrap_err().status, Status::Invalid);
        }
        for at in 1..64 {
            graph.create(format!("g{at}"), ERROR, 1, 1, 0).await?;
        }
        let full = graph.create("more".into(), ERROR, 1, 1, 0).await.unwrap_err();
        assert_eq!(full.status, Status::NoMemory);
        Ok(())
    });
}
