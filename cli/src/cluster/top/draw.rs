//! What `nile top` draws: a line for the cluster, and a row for each core with what it has done
//! since the last sample.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::Sample;
use crate::cluster::status::CoreStatus;

/// The last two samples, and what of them is in view.
#[derive(Default)]
pub struct View {
    last: Option<Sample>,
    before: Option<Sample>,
    /// The first row that is shown.
    top: usize,
}

/// The columns and how wide they are.
const COLUMNS: [(&str, Constraint); 9] = [
    ("core", Constraint::Length(10)),
    ("roles", Constraint::Length(26)),
    ("state", Constraint::Length(10)),
    ("load", Constraint::Length(6)),
    ("turns/s", Constraint::Length(9)),
    ("sleeps/s", Constraint::Length(9)),
    ("calls/s", Constraint::Length(8)),
    ("queues", Constraint::Min(10)),
    ("interrupts/s", Constraint::Min(24)),
];

impl View {
    /// Shows `sample` from now on.
    pub fn take(&mut self, sample: Sample) {
        self.before = self.last.replace(sample);
    }

    /// Moves so many rows down.
    pub fn scroll(&mut self, rows: i32) {
        let most = self.rows().len().saturating_sub(1);
        self.top = self.top.saturating_add_signed(rows as isize).min(most);
    }

    /// Draws it.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let [head, body] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(frame.area());
        frame.render_widget(Line::from(self.head()), head);
        let title = Row::new(COLUMNS.map(|(name, _)| name))
            .style(Style::new().add_modifier(Modifier::REVERSED));
        let rows = self.rows().into_iter().skip(self.top);
        let rows = rows.map(|(cells, color)| {
            Row::new(cells.into_iter().map(Cell::from)).style(Style::new().fg(color))
        });
        let table = Table::new(rows, COLUMNS.map(|(_, width)| width)).header(title);
        frame.render_widget(table, body);
    }

    fn head(&self) -> String {
        let Some(sample) = &self.last else { return "asking the nodes …".into() };
        let count = |state: &str| sample.nodes.iter().filter(|it| it.state == state).count();
        let states: Vec<String> = ["alive", "suspect", "unreachable", "down"]
            .into_iter()
            .filter(|state| count(state) > 0)
            .map(|state| format!("{} {state}", count(state)))
            .collect();
        format!("nodes: {}   q ends, arrows scroll", states.join(", "))
    }

    fn rows(&self) -> Vec<(Vec<String>, Color)> {
        let Some(sample) = &self.last else { return Vec::new() };
        let mut rows = Vec::new();
        for node in &sample.nodes {
            for core in &node.cores {
                rows.push((self.row(&node.name, core), Color::Reset));
            }
            if node.cores.is_empty() {
                let reason = node.error.clone().unwrap_or_default();
                rows.push((vec![node.name.clone(), reason, node.state.clone()], Color::Red));
            }
        }
        rows
    }

    fn row(&self, node: &str, core: &CoreStatus) -> Vec<String> {
        let before = self.before.as_ref().and_then(|sample| {
            let node = sample.nodes.iter().find(|it| it.name == node)?;
            node.cores.iter().find(|it| it.id == core.id)
        });
        let seconds = match (&self.last, &self.before) {
            (Some(last), Some(before)) => (last.at - before.at).as_secs_f64(),
            _ => 0.0,
        };
        let rate = |now: u64, then: Option<u64>| match then {
            // Counts begin anew with a node.
            Some(then) if now >= then && seconds > 0.0 => {
                Some(((now - then) as f64 / seconds).round() as u64)
            }
            _ => None,
        };
        let cell = |rate: Option<u64>| rate.map_or_else(String::new, |it| it.to_string());
        let interrupts: BTreeMap<String, u64> = core
            .interrupts
            .iter()
            .filter_map(|(cause, now)| {
                let then = before.and_then(|it| it.interrupts.get(cause).copied());
                Some((cause.clone(), rate(*now, then)?))
            })
            .collect();
        let waits = |all: &BTreeMap<String, u64>| {
            let all = all.iter().filter(|(_, count)| **count > 0);
            all.map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(" ")
        };
        vec![
            format!("{node}.c{}", core.id),
            core.roles.join(" "),
            core.state.clone(),
            core.load.to_string(),
            cell(rate(core.turns, before.map(|it| it.turns))),
            cell(rate(core.sleeps, before.map(|it| it.sleeps))),
            cell(rate(core.system_calls, before.map(|it| it.system_calls))),
            waits(&core.queues),
            waits(&interrupts),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    use crate::cluster::status::NodeStatus;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn sample(at: Instant, ticks: u64, alive: bool) -> Sample {
        let core = CoreStatus {
            id: 2,
            roles: vec!["worker".into()],
            hardware_id: None,
            generation: 1,
            state: "running".into(),
            interrupts: BTreeMap::from([("tick".into(), ticks), ("doorbell".into(), 5)]),
            load: 42,
            queues: BTreeMap::from([("received".into(), 3)]),
            wakes: 3,
            turns: 100 + ticks,
            sleeps: 7,
            system_calls: 0,
            services: vec![],
        };
        let node = NodeStatus {
            node: nile_abi::NodeId(1),
            name: "n1".into(),
            state: if alive { "alive" } else { "down" }.into(),
            machine: "hosted".into(),
            generation: 1,
            cores: if alive { vec![core] } else { vec![] },
            namesake: None,
            error: None,
        };
        Sample { at, nodes: vec![node] }
    }

    fn screen(view: &View) -> String {
        let mut terminal = Terminal::new(TestBackend::new(130, 5)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn rates_are_what_changed_in_a_second() {
        let (mut view, start) = (View::default(), Instant::now());
        assert!(screen(&view).contains("asking"));
        view.take(sample(start, 10, true));
        view.take(sample(start + Duration::from_secs(2), 30, true));
        let shown = screen(&view);
        for part in ["1 alive", "n1.c2", "worker", "42", "received 3", "tick 10"] {
            assert!(shown.contains(part), "{part:?} is not in\n{shown}");
        }
        assert!(!shown.contains("doorbell"), "nothing came of it:\n{shown}");
        view.take(sample(start + Duration::from_secs(3), 0, false));
        view.scroll(-5);
        let shown = screen(&view);
        assert!(shown.contains("1 down") && !shown.contains("n1.c2"), "{shown}");
    }
}
