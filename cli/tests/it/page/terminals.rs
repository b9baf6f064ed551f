//! The page from its beginning: several terminals that share one server, and then the other blocks.
//!
//! A comment before a block describes it. `<!-- begins: N -->` is a command of terminal N that continues to run, with
//! the first line of its output. `<!-- ends: N -->` is the rest of its output, up to its end. `<!-- screen -->` is a
//! command that fills the screen. Without a comment, all commands of the block end.

use std::collections::BTreeMap;

use super::{ALONE, alone, check, is_written, normal, run, shell};
use crate::look::screen::Screen;
use crate::program::Running;
use crate::support::server::RedisServer;

/// The command that kills the process in terminal 1, as the page shows it.
const KILL: &str = "kill -9 4711";

/// The separator between the texts of two blocks.
const NEXT: &str = "@@ next block @@\n";

struct Terminals {
    server: RedisServer,
    running: BTreeMap<String, Running>,
    /// The output of all blocks so far: equal IDs and tokens have one form in all of them.
    shown: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_block_of_the_page_is_what_the_program_says() {
    let mut terminals = Terminals::start().await;
    let mut is_shared = true;
    let shows = async |block: &str, before: &str| {
        is_shared &= !before.contains(ALONE);
        match is_shared {
            true => terminals.show(block, before).await,
            false => alone(block, before).await,
        }
    };
    check(shows).await;
    assert!(!is_shared, "the page has {ALONE}");
}

impl Terminals {
    async fn start() -> Self {
        Self {
            server: RedisServer::start().await,
            running: BTreeMap::new(),
            shown: String::new(),
        }
    }

    /// The block with its output, in the form of the page.
    async fn show(&mut self, block: &str, before: &str) -> String {
        let shown = self.output(block, before).await;
        self.shown += &format!("{NEXT}{shown}");
        let all = normal::form(&self.shown);
        all.rsplit(NEXT).next().unwrap_or_default().to_owned()
    }

    async fn output(&mut self, block: &str, before: &str) -> String {
        let typed = block.lines().next().and_then(|it| it.strip_prefix("$ "));
        let typed = typed.unwrap_or_default();
        let comment = before.split_once("<!-- ");
        let comment = comment.and_then(|it| it.1.split_once(" -->"));
        match comment.map(|it| it.0.split_once(": ").unwrap_or((it.0, ""))) {
            Some(("begins", name)) => {
                let script = format!("exec 2>&1; exec {typed}");
                let mut running = Running::start(&mut shell(&self.server, &script));
                let line = running.line().await;
                self.running.insert(name.to_owned(), running);
                format!("$ {typed}\n{line}\n")
            }
            Some(("ends", name)) => {
                let running = self.running.get_mut(name).expect("a terminal");
                running.rest().await.join("\n") + "\n"
            }
            Some(("screen", _)) => self.screen(typed, block).await,
            Some((other, _)) => panic!("{other}: no such comment"),
            None => {
                let holder = self.running.get("1").expect("a terminal").pid();
                let kill = format!("kill -9 {holder}");
                run(&self.server, &block.replace(KILL, &kill)).replace(&kill, KILL)
            }
        }
    }

    /// The command, and its screen when it is complete. If the page is compared, it is the expected screen.
    async fn screen(&self, typed: &str, block: &str) -> String {
        let screen = Screen::start(shell(&self.server, &format!("exec {typed}")), 5, 120);
        let shown = |text: &str| {
            let lines = text.lines().map(|line| format!("{}\n", line.trim_end()));
            normal::form(&format!("$ {typed}\n{}", lines.collect::<String>()))
        };
        let is_complete = |text: &str| {
            let row = text.lines().find(|line| line.starts_with("order:42"));
            let is_waited_for = row.is_some_and(|it| it.trim_end().ends_with(" 1"));
            is_waited_for && text.contains("1 lock, sweep 100 %")
        };
        let is_there = |text: &str| is_complete(text) && (is_written() || shown(text) == block);
        let what = format!("REENTRY_DOCS=write would write another screen than {block}");
        screen.until(&what, is_there).await;
        match is_written() {
            true => shown(&screen.text()),
            false => block.to_owned(),
        }
    }
}
