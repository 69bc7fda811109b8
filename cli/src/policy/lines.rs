//! The policies of a cluster by type: those that nodes publish, and what is known of each.

use nile_abi::NodeId;
use nile_gossip::Instance;
use nile_interfaces::policy_manager::{PolicyEntry, SubjectEntry};
use nile_registry::EXPELLED;
use nile_registry::priority::PRIORITY;

use crate::peer::known::Target;

/// The type of the policies of a core's executor.
pub const SCHEDULING: &str = "scheduling";

/// Who schedules those that are bound to nothing; no instance.
const DEFAULT: &str = "default";

/// A policy, where it is. What nobody counts is `None`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its type, and those that its type extends, the nearest first.
    pub types: Vec<String>,
    pub name: String,
    /// None: it is the cluster's.
    pub node: Option<NodeId>,
    pub location: String,
    pub priority: Option<i64>,
    /// Who is bound to it, or uses it.
    pub bound: Option<Vec<String>>,
    pub decisions: Option<u64>,
    pub refused: Option<u64>,
    /// Where, why and when.
    pub expelled: Option<String>,
    /// What it decided last before that.
    pub last: Vec<String>,
}

impl Line {
    pub fn kind(&self) -> &str {
        &self.types[0]
    }

    /// Whether it is of this name, or of this type.
    pub fn is(&self, what: &str) -> bool {
        self.name == what || self.types.iter().any(|it| it == what)
    }

    fn new(kind: &str, name: &str, node: NodeId) -> Line {
        Line {
            types: vec![kind.into()],
            name: name.into(),
            node: Some(node),
            location: node.to_string(),
            ..Line::default()
        }
    }

    /// Says who is bound to it.
    pub fn bind(&mut self, subject: String) {
        self.bound.get_or_insert_default().push(subject);
    }
}

/// The policies, in no order.
#[derive(Default)]
pub struct Lines(pub Vec<Line>);

impl Lines {
    /// What nodes publish. A type is one of policies if instances have their places in an order of
    /// it, or are called otherwise than it: then somebody chooses among them.
    pub fn published(instances: &[(Target, &Instance)]) -> Lines {
        let is_chosen = |it: &Instance| it.name != it.type_name || value(it, PRIORITY).is_some();
        let mut lines = Lines::default();
        for (target, it) in instances {
            let alike = |other: &&(Target, &Instance)| other.1.type_name == it.type_name;
            if !instances.iter().filter(alike).any(|(_, other)| is_chosen(other)) {
                continue;
            }
            let types = [&it.type_name].into_iter().chain(&it.extends).cloned().collect();
            lines.0.push(Line {
                types,
                name: it.name.clone(),
                node: Some(target.node),
                location: target.place(),
                priority: value(it, PRIORITY).and_then(|it| it.parse().ok()),
                expelled: value(it, EXPELLED).map(String::from),
                ..Line::default()
            });
        }
        lines
    }

    /// A node's policy of a type, which is new if it publishes none such.
    pub fn at(&mut self, kind: &str, node: NodeId, name: &str) -> &mut Line {
        let is_it = |it: &Line| (it.kind(), it.node, &*it.name) == (kind, Some(node), name);
        let place = self.0.iter().position(is_it).unwrap_or_else(|| {
            self.0.push(Line::new(kind, name, node));
            self.0.len() - 1
        });
        &mut self.0[place]
    }

    /// What the policy manager of a core says.
    pub fn scheduled(&mut self, at: Target, policies: &[PolicyEntry], subjects: &[SubjectEntry]) {
        let place = at.place();
        for entry in policies {
            let line = self.at(SCHEDULING, at.node, &entry.name);
            line.bound.get_or_insert_default();
            line.priority = Some(entry.priority);
            *line.decisions.get_or_insert_default() += entry.decisions;
            *line.refused.get_or_insert_default() += entry.refused;
            // The registry says the last one; here are its decisions, too.
            if let Some(why) = &entry.expelled {
                line.expelled = Some(format!("{place}: {why}"));
                line.last = entry.last.clone();
            }
        }
        for subject in subjects.iter().filter(|it| it.policy != DEFAULT) {
            let line = self.at(SCHEDULING, at.node, &subject.policy);
            line.bind(format!("{place}/{}", subject.name));
        }
    }

    /// By type, node, and the order in which they are asked.
    pub fn sort(&mut self) {
        self.0.sort_by(|one, other| {
            let key = |it: &Line| (it.types[0].clone(), it.node, -it.priority.unwrap_or(0));
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
    }
}

/// An attribute of an instance.
fn value<'a>(it: &'a Instance, name: &str) -> Option<&'a str> {
    it.attributes.iter().find(|it| it.name == name).map(|it| &*it.value)
}
