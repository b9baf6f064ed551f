//! The output of the example: the events of the crate and of the contenders, in plain words.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer};

/// Prints each event, preceded by the time and the name of its contender.
pub(crate) struct PlainWords;

impl<S: Subscriber> Layer<S> for PlainWords {
    fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        span.record(&mut fields);
        // The spans of the crate are inside the span of the contender.
        let around = context.current_span().id().map(|id| format!("{id:?}"));
        let mut names = names();
        let around = around.and_then(|id| names.get(&id).cloned());
        let name = fields.0.get("name").cloned().or(around);
        names.insert(format!("{id:?}"), name.unwrap_or_default());
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let get = |field| fields.get(field);
        let [hold, other] = ["hold", "held_by"].map(|field| short(&get(field)));
        let name_of = |id: &String| names().get(id).cloned();
        // A lease may be renewed outside the span of its contender. By then, the hold of the contender is known.
        let span = context.current_span().id().map(|id| format!("{id:?}"));
        let name = name_of(&hold)
            .or_else(|| name_of(&span?))
            .unwrap_or_default();
        let text = match &*get("message") {
            "acquired" => {
                let waited = get("waited");
                names().insert(hold.clone(), name.clone());
                format!("has the lock after {waited}, as call graph {hold}")
            }
            "reentered" => format!("re-enters: depth {}", get("depth")),
            "waiting" => {
                let (waited, held) = (get("waited"), get("held"));
                let other = name_of(&other).unwrap_or(other);
                format!("has waited {waited} behind {other}, who has had the lock for {held}")
            }
            "renewed" => format!(
                "has its lease renewed: it lasts {} from now",
                get("remaining")
            ),
            "released" => format!("has released the lock after {}", get("held")),
            "acquire_undone" => "has withdrawn its request".to_owned(),
            "lost" => format!("has lost the lock: {}", get("reason")),
            "connected" | "disconnected" | "closed" => return,
            other => format!("{other} {}", get("error")),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_millis();
        let (minute, second, milli) = (now / 60_000 % 60, now / 1000 % 60, now % 1000);
        print(&format!(
            "{minute:02}:{second:02}.{milli:03}  {name:<5} {text}"
        ));
    }
}

/// Unlike `println!`, it does not panic if the output has no reader any more.
pub(crate) fn print(line: &str) {
    let _ = writeln!(io::stdout(), "{}", line.trim_end());
}

/// The contenders of this process, by their spans and by the first characters of their holds.
pub(crate) fn names() -> MutexGuard<'static, BTreeMap<String, String>> {
    static NAMES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The fields of an event or of a span.
#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Fields {
    fn get(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let value = format!("{value:.1?}").trim_matches('"').to_owned();
        self.0.insert(field.name(), value);
    }
}

/// A short name of a call graph in `<call graph>:<number>`: some of the digits that are different for each call graph.
/// All ids of a process begin with the same digits.
fn short(hold: &str) -> String {
    let digits = hold.rsplit('-').next().unwrap_or_default();
    digits.chars().take(8).collect()
}
