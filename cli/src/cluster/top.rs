//! `nile top`: the cluster in the terminal, anew each second. One thread asks the nodes, another
//! draws and listens to the keys, so that a node that does not answer stops nothing.

mod draw;

use std::io::{IsTerminal, stdin, stdout};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::args::Top;
use super::session::Session;
use super::status::{Gatherer, NodeStatus};
use crate::advice;
use crate::failure::Failure;
use crate::interrupt;
use draw::View;

/// How often the nodes are asked.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_millis(800);

/// How long the nodes are waited for at the start.
const START: Duration = Duration::from_secs(3);

/// How often it is looked for keys.
const LOOK: Duration = Duration::from_millis(50);

/// The state of the cluster at a moment.
pub struct Sample {
    at: Instant,
    nodes: Vec<NodeStatus>,
}

/// Shows the cluster until someone presses q.
pub fn run(options: &Top) -> Result<(), Failure> {
    if !stdout().is_terminal() || !stdin().is_terminal() {
        let status = advice::named(&options.which, "status", &[]);
        return Err(Failure::request(format!(
            "top needs a terminal; `{status} --json` says the same to programs"
        )));
    }
    let mut session = Session::open(&options.which, START)?;
    session.patience = PATIENCE;
    let over = Arc::new(AtomicBool::new(false));
    let (sender, samples) = mpsc::channel();
    let asks = {
        let over = over.clone();
        thread::spawn(move || ask(session, &sender, &over))
    };
    // It gives the terminal back when this thread panics, too.
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::failed(format!("the terminal cannot be drawn on: {error}")))?;
    let shown = show(&mut terminal, &samples);
    ratatui::restore();
    over.store(true, Ordering::Relaxed);
    let asked = asks.join();
    // Why there were no more samples says more than that there were none.
    if let Ok(Err(failure @ (Failure::Failed(_) | Failure::Request(_)))) = asked {
        return Err(failure);
    }
    shown
}

/// Asks the nodes each period until it is over.
fn ask(session: Session, samples: &Sender<Sample>, over: &AtomicBool) -> Result<(), Failure> {
    let mut gatherer = Gatherer::new(session);
    let is_over = || over.load(Ordering::Relaxed);
    while !is_over() {
        let at = Instant::now();
        let nodes = gatherer.gather()?;
        if samples.send(Sample { at, nodes }).is_err() {
            return Ok(());
        }
        gatherer.idle(PERIOD.saturating_sub(at.elapsed()), is_over)?;
    }
    Ok(())
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    samples: &Receiver<Sample>,
) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::failed(format!("the terminal: {error}"));
    let mut view = View::default();
    loop {
        loop {
            match samples.try_recv() {
                Ok(sample) => view.take(sample),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return Ok(()),
            }
        }
        terminal.draw(|frame| view.draw(frame)).map_err(cannot)?;
        if event::poll(LOOK).map_err(cannot)?
            && let Event::Key(key) = event::read().map_err(cannot)?
            && key.kind != KeyEventKind::Release
        {
            match key {
                KeyEvent { code: KeyCode::Char('c'), modifiers: KeyModifiers::CONTROL, .. }
                | KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. } => return Ok(()),
                KeyEvent { code: KeyCode::Down | KeyCode::Char('j'), .. } => view.scroll(1),
                KeyEvent { code: KeyCode::Up | KeyCode::Char('k'), .. } => view.scroll(-1),
                KeyEvent { code: KeyCode::PageDown, .. } => view.scroll(10),
                KeyEvent { code: KeyCode::PageUp, .. } => view.scroll(-10),
                _ => {}
            }
        }
        if interrupt::requested() {
            return Err(Failure::Interrupted);
        }
    }
}
