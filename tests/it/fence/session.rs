//! A session of a database, with its own client program over pipes. So no driver is compiled.

use std::process::Command;

use reentry::FenceSql;

use crate::support::Child;
use crate::support::database::program;

/// The line that ends the output of each request.
const END: &str = "end-of-answer";

/// A database for which the fence exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Database {
    Postgres,
    MariaDb,
    Sqlite,
}

impl Database {
    pub(super) fn sql(self) -> FenceSql {
        match self {
            Self::Postgres => FenceSql::Postgres,
            Self::MariaDb => FenceSql::MySql,
            Self::Sqlite => FenceSql::Sqlite,
        }
    }

    /// The client program. `place` is the folder of the server or of the file. `name` is the schema or the file.
    fn client(self, place: &str, name: &str) -> Command {
        // The errors of the program appear in their places among its output.
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$0" "$@" 2>&1"#]);
        match self {
            Self::Postgres => {
                command.arg(program("psql"));
                command.args(["-XqAt", "-v", "VERBOSITY=verbose", "-U", "postgres"]);
                command.args(["-h", place, "-d", "postgres"]);
                command.env("PGOPTIONS", format!("-c search_path={name}"));
            }
            Self::MariaDb => {
                command.arg(program("mariadb"));
                command.args(["--no-defaults", "--batch", "--skip-column-names"]);
                command.args(["--force", "--unbuffered", "--user=root", "-D", name]);
                command.arg(format!("--socket={place}/socket"));
            }
            Self::Sqlite => {
                command.arg(program("sqlite3"));
                command.args(["-batch", "-cmd", ".timeout 20000"]);
                command.arg(format!("{place}/{name}"));
            }
        }
        command
    }

    /// The statement that makes the client print [`END`].
    fn end(self) -> String {
        match self {
            Self::Postgres => format!(r"\echo {END}"),
            Self::MariaDb => format!("SELECT '{END}';"),
            Self::Sqlite => format!(".print {END}"),
        }
    }

    /// The statement that begins a transaction.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Postgres => "BEGIN",
            Self::MariaDb => "START TRANSACTION",
            Self::Sqlite => "BEGIN IMMEDIATE",
        }
    }

    /// The fence, with values instead of its parameters.
    pub(super) fn fence(self, key: &str, token: i64) -> String {
        self.fence_of(&format!("'{key}'"), &token.to_string())
    }

    /// The fence, with SQL instead of its parameters.
    pub(super) fn fence_of(self, key: &str, token: &str) -> String {
        let statement = self.sql().statement();
        let (first, second) = match self {
            Self::Postgres => ("$1", "$2"),
            Self::MariaDb => ("?", "?"),
            Self::Sqlite => ("?1", "?2"),
        };
        let statement = statement.replacen(first, key, 1);
        statement.replacen(second, token, 1)
    }
}

/// A session. Its program is killed on drop.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) database: Database,
    client: Child,
}

impl Session {
    pub(super) fn open(database: Database, place: &str, name: &str) -> Self {
        let mut command = database.client(place, name);
        let client = Child::run(&format!("{database:?}"), &mut command);
        Self { database, client }
    }

    /// Executes statements, separated by `;`.
    pub(super) async fn run(&mut self, sql: &str) -> Answer {
        self.send(sql);
        self.answer().await
    }

    /// Sends statements. The next [`answer`](Self::answer) is about them.
    pub(super) fn send(&mut self, sql: &str) {
        // An empty statement is an error in some clients.
        let sql = sql.trim_end().trim_end_matches(';');
        self.client.tell(&format!("{sql};"));
        self.client.tell(&self.database.end());
    }

    pub(super) async fn answer(&mut self) -> Answer {
        let mut answer = Answer::default();
        loop {
            let line = self.client.next_line().await;
            let line = line.unwrap_or_else(|| panic!("the client has ended: {answer:?}"));
            if line == END {
                return answer;
            }
            answer.take(line);
        }
    }

    /// Begins a transaction with the fence.
    pub(super) async fn enter(&mut self, key: &str, token: i64) -> Answer {
        self.send_enter(key, token);
        self.answer().await
    }

    /// Sends the beginning of a transaction with the fence.
    pub(super) fn send_enter(&mut self, key: &str, token: i64) {
        let (begin, fence) = (self.database.begin(), self.database.fence(key, token));
        self.send(&format!("{begin}; {fence}"));
    }

    /// Adds to the balance of the only account.
    pub(super) async fn add(&mut self, amount: i64) {
        let update = format!("UPDATE account SET balance = balance + {amount}");
        self.run(&update).await.done();
    }

    pub(super) async fn commit(&mut self) {
        self.run("COMMIT").await.done();
    }

    pub(super) async fn roll_back(&mut self) {
        self.run("ROLLBACK").await.done();
    }

    pub(super) async fn balance(&mut self) -> i64 {
        self.number("SELECT balance FROM account").await
    }

    pub(super) async fn number(&mut self, query: &str) -> i64 {
        let rows = self.run(query).await.done();
        rows.concat().parse().unwrap_or_else(|_| panic!("{rows:?}"))
    }

    /// Ends the client without notifying the server.
    pub(super) fn die(&mut self) {
        self.client.sigkill();
    }
}

/// The response of the database to some statements.
#[derive(Debug, Default)]
pub(super) struct Answer {
    rows: Vec<String>,
    /// The first error, and everything after it.
    error: Option<String>,
}

impl Answer {
    fn take(&mut self, line: String) {
        let begins = ["ERROR", "FATAL", "Error", "Parse error", "Runtime error"];
        match &mut self.error {
            Some(error) => *error = format!("{error}\n{line}"),
            None if begins.iter().any(|begin| line.starts_with(begin)) => self.error = Some(line),
            // A function without a result returns an empty row.
            None if line.is_empty() => {}
            None => self.rows.push(line),
        }
    }

    /// The rows.
    ///
    /// # Panics
    ///
    /// Panics if there was an error.
    #[track_caller]
    pub(super) fn done(self) -> Vec<String> {
        assert_eq!(self.error, None);
        self.rows
    }

    /// The error.
    ///
    /// # Panics
    ///
    /// Panics if there was none.
    #[track_caller]
    pub(super) fn failed(self) -> String {
        self.error.unwrap_or_else(|| panic!("{:?}", self.rows))
    }

    /// Returns whether the fence has rejected the token.
    pub(super) fn is_refused(&self) -> bool {
        let error = self.error.as_ref();
        error.is_some_and(|error| error.contains("stale_fencing_token"))
    }
}
