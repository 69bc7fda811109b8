//! What `nile top` draws: a line for the cluster, and a row for each core with what it has done
//! since the last sample. Below each core are the packages that stay on it; their load is the part
//! of the time that was theirs.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::Sample;
use crate::cluster::status::{CoreStatus, PackageStatus, memory};

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
                let packages = core.packages.iter().flatten();
                rows.extend(
                    packages.map(|it| (self.package(&node.name, core.id, it), Color::Cyan)),
                );
            }
            if node.cores.is_empty() {
                let reason = node.error.clone().unwrap_or_default();
                rows.push((vec![node.name.clone(), reason, node.state.clone()], Color::Red));
            }
        }
        rows
    }

    /// A core, as it was in the sample before.
    fn before(&self, node: &str, core: u16) -> Option<&CoreStatus> {
        let node = self.before.as_ref()?.nodes.iter().find(|it| it.name == node)?;
        node.cores.iter().find(|it| it.id == core)
    }

    /// How much a count has grown in a second.
    fn rate(&self, now: u64, then: Option<u64>) -> Option<u64> {
        let at = |sample: &Option<Sample>| sample.as_ref().map(|it| it.at);
        let seconds = (at(&self.last)? - at(&self.before)?).as_secs_f64();
        // Counts begin anew with a node, and with a package.
        let grown = now.checked_sub(then?).filter(|_| seconds > 0.0)?;
        Some((grown as f64 / seconds).round() as u64)
    }

    /// A package, in the columns of its core.
    fn package(&self, node: &str, core: u16, now: &PackageStatus) -> Vec<String> {
        let packages = self.before(node, core).and_then(|it| it.packages.as_ref());
        let then = packages.into_iter().flatten().find(|it| it.name == now.name);
        let busy = self.rate(now.busy_us, then.map(|it| it.busy_us));
        let calls = self.rate(now.system_calls, then.map(|it| it.system_calls));
        let mut row = vec![String::new(); COLUMNS.len()];
        row[1] = format!("  {}", now.name);
        row[2] = now.state.clone();
        row[3] = cell(busy.map(|it| it / 10_000));
        row[6] = cell(calls);
        row[7] = memory(now.memory_bytes);
        row
    }

    fn row(&self, node: &str, core: &CoreStatus) -> Vec<String> {
        let before = self.before(node, core.id);
        let rate = |now, then| self.rate(now, then);
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

fn cell(rate: Option<u64>) -> String {
    rate.map_or_else(String::new, |it| it.to_string())
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
            packages: Some(vec![PackageStatus {
                name: "web".into(),
                state: "runs".into(),
                begun: 1,
                memory_bytes: 3 << 20,
                busy_us: ticks * 10_000,
                system_calls: ticks * 12,
            }]),
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
        let mut terminal = Terminal::new(TestBackend::new(130, 6)).unwrap();
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
        let package = shown.lines().find(|line| line.contains("  web")).unwrap();
        let words: Vec<&str> = package.trim_matches('"').split_whitespace().collect();
        assert_eq!(words, ["web", "runs", "10", "120", "3072", "KiB"]);
        view.take(sample(start + Duration::from_secs(3), 0, false));
        view.scroll(-5);
        let shown = screen(&view);
        assert!(shown.contains("1 down") && !shown.contains("n1.c2"), "{shown}");
    }
}
