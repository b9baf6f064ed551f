//! The spans and events of a test as a tree.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::ops::Index;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::support::subscriber::subscribe;

/// The output of one test for the subscriber.
#[derive(Clone, Default)]
pub(crate) struct Trace(Arc<Mutex<Nodes>>);

#[derive(Default)]
struct Nodes {
    all: Vec<Node>,
    of: BTreeMap<u64, usize>,
}

/// A span or an event.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    parent: Option<usize>,
    pub(crate) fields: BTreeMap<String, String>,
    /// Whether it has ended. An event ends immediately.
    pub(crate) is_over: bool,
}

impl Index<&str> for Node {
    type Output = String;

    /// The field of this name.
    fn index(&self, name: &str) -> &String {
        &self.fields[name]
    }
}

impl Trace {
    /// The trace of this thread, where the single-threaded runtime of a test runs all its tasks.
    pub(crate) fn of_this_test() -> (Self, DefaultGuard) {
        let trace = Self::default();
        let subscriber = tracing_subscriber::registry().with(trace.clone());
        (trace, subscribe(subscriber))
    }

    /// The spans and events of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Node> {
        let nodes = self.nodes();
        let named = nodes.all.iter().filter(|node| node.name == name);
        named.cloned().collect()
    }

    /// The names of the spans around the first one of this name, beginning with the innermost.
    pub(crate) fn around(&self, name: &str) -> Vec<String> {
        let nodes = self.nodes();
        let first = nodes.all.iter().find(|node| node.name == name);
        let first = first.unwrap_or_else(|| panic!("no {name}"));
        let parent = |node: &&Node| node.parent.map(|at| &nodes.all[at]);
        let around = std::iter::successors(Some(first), parent).skip(1);
        around.map(|node| node.name.clone()).collect()
    }

    /// The whole tree, one line each, with these fields.
    pub(crate) fn tree(&self, shown: &[&str]) -> String {
        let (nodes, mut tree) = (self.nodes(), String::new());
        nodes.write(None, "", shown, &mut tree);
        tree
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nodes {
    fn write(&self, parent: Option<usize>, indent: &str, shown: &[&str], tree: &mut String) {
        let inside = |at: &usize| self.all[*at].parent == parent;
        let inside: Vec<usize> = (0..self.all.len()).filter(inside).collect();
        for at in &inside {
            let (node, is_last) = (&self.all[*at], inside.last() == Some(at));
            let (branch, below) = match (parent, is_last) {
                (None, _) => ("", ""),
                (Some(_), true) => ("└─ ", "   "),
                (Some(_), false) => ("├─ ", "│  "),
            };
            let fields = shown.iter().filter_map(|name| {
                let value = node.fields.get(*name)?;
                Some(format!(" {name}={value}"))
            });
            let fields: String = fields.collect();
            let _ = writeln!(tree, "{indent}{branch}{}{fields}", node.name);
            self.write(Some(*at), &format!("{indent}{below}"), shown, tree);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Trace {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        attributes.record(&mut fields);
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.clone()),
            None if attributes.is_contextual() => context.current_span().id().cloned(),
            None => None,
        };
        let mut nodes = self.nodes();
        let parent = parent.and_then(|parent| nodes.of.get(&parent.into_u64()).copied());
        let at = nodes.all.len();
        nodes.all.push(Node {
            name: attributes.metadata().name().to_owned(),
            parent,
            fields: fields.0,
            is_over: false,
        });
        nodes.of.insert(id.into_u64(), at);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut nodes = self.nodes();
        let at = nodes.of[&id.into_u64()];
        let mut fields = Fields(std::mem::take(&mut nodes.all[at].fields));
        values.record(&mut fields);
        nodes.all[at].fields = fields.0;
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let level = event.metadata().level().to_string();
        fields.0.insert("level".to_owned(), level);
        let mut nodes = self.nodes();
        let parent = context.event_span(event).map(|span| span.id().into_u64());
        let parent = parent.and_then(|parent| nodes.of.get(&parent).copied());
        nodes.all.push(Node {
            name: fields.0.remove("message").unwrap_or_default(),
            parent,
            fields: fields.0,
            is_over: true,
        });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut nodes = self.nodes();
        if let Some(at) = nodes.of.remove(&id.into_u64()) {
            nodes.all[at].is_over = true;
        }
    }
}

struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:?}").trim_matches('"').to_owned();
        self.0.insert(field.name().to_owned(), value);
    }
}
