//! Graphs that change, kept by a worker core while calls are answered.

mod node;

use nile_abi::Status;
use nile_interfaces::graph::{
    Acknowledgement, Division, EdgeEvent, GraphClient, GraphQuestion, MOST_EVENTS,
};
use nile_services::cluster;
use nile_stl::Place;

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

#[test]
fn a_graph_in_parts_is_what_it_would_be_in_one() {
    node::run(5, |stl| async move {
        let places: Vec<Place> =
            cluster::places(&stl, "graph").await?.into_iter().map(|it| it.1).collect();
        assert!(places.len() > 1, "{places:?}");
        let [one, other] = [0, 1].map(|at| GraphClient::at(&stl, places[at]));
        one.create("one".into(), ERROR, 1000, 10_000, 0).await?;
        for (part, client) in [(0, &one), (1, &other)] {
            let (name, division) = (format!("web/{part}"), Division { parts: 2, number: 77 });
            client.create_part(name, ERROR, 1000, 10_000, 0, division).await?;
        }
        // Half of them lead to one vertex, a quarter to the next, and so on.
        let to = |at: u64| 9000 + u64::from((at + 1).trailing_zeros());
        let events: Vec<EdgeEvent> = (0..6000).map(|at| edge(at, at, to(at))).collect();
        for part in events.chunks(512) {
            one.offer("one", 7, 0, Acknowledgement::Taken, part.into()).await?;
            let offered = other.offer("web", 7, 0, Acknowledgement::Taken, part.into()).await?;
            assert_eq!((offered.new, offered.known), (part.len() as u64, 0));
            assert_eq!(offered.next, part[part.len() - 1].sequence + 1);
        }
        let known = one.offer("web", 7, 5, Acknowledgement::Ranked, events[..512].into()).await?;
        assert_eq!((known.new, known.known, known.next), (0, 512, 6000));
        let [right, web] = [one.settled("one").await?, other.settled("web").await?];
        assert_eq!((web.vertices, web.edges, web.parts), (right.vertices, right.edges, 2));
        assert_eq!((web.events, web.behind, web.name.as_str()), (6000, 0, "web"));
        assert!(web.error <= ERROR, "{web:?}");
        let [right, top] = [one.top("one", 9).await?, other.top("web", 9).await?];
        let sure = right.iter().zip(&top).take_while(|(it, _)| it.certain);
        assert!(sure.clone().count() > 2 && sure.clone().all(|(it, own)| it.vertex == own.vertex));
        assert_eq!(one.top("web", 9).await?, top, "whichever part is asked");
        for it in &top {
            assert_eq!(one.rank("web", it.vertex).await?, it.rank);
        }
        assert_eq!(one.rank("web", 77_777).await.unwrap_err().status, Status::NotFound);
        assert_eq!(one.rank("web/0", 77_777).await.unwrap_err().status, Status::NotFound);
        assert_eq!(one.distance("web/0", 1, 2).await.unwrap_err().status, Status::Invalid);
        for (from, to) in [(1, 9001), (1, 2), (9000, 1), (4, 4), (77_777, 77_777)] {
            let right = one.distance("one", from, to).await?;
            assert_eq!(one.distance("web", from, to).await?, right, "{from} {to}");
            assert_eq!(other.distance("web", from, to).await?, right, "{from} {to}");
        }
        for vertex in [0, 1, 3, 5999, 9003] {
            let right = one.component("one", vertex).await?;
            assert_eq!(other.component("web", vertex).await?, right, "{vertex}");
        }
        let unknown = other.component("web", 77_777).await.unwrap_err();
        assert_eq!(unknown.status, Status::NotFound);
        let question = GraphQuestion::Component { of: 1 };
        assert!(one.search("web/0", 5, question, 0).await?.known, "it is another part's, too");
        let lost = one.search("web/0", 6, question, 1).await.unwrap_err();
        assert_eq!(lost.status, Status::NotFound, "nobody has begun it");
        for number in 7..10 {
            one.search("web/0", number, question, 0).await?;
        }
        assert_eq!(other.component("web", 1).await.unwrap_err().status, Status::Busy);
        one.end_search("web/0", 5).await?;
        assert_eq!(other.component("web", 1).await?, one.component("one", 1).await?);
        let sources = other.sources("web", None).await?;
        assert_eq!((sources.len(), sources[0].next, sources[0].until), (1, 6000, 5));
        let names: Vec<String> = one.list("").await?.into_iter().map(|it| it.name).collect();
        assert_eq!(names, ["one", "web/0"]);
        other.remove("web").await?;
        assert_eq!(one.state("web").await.unwrap_err().status, Status::NotFound);
        Ok(())
    });
}
