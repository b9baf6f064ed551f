//! `reentry fence`: the SQL with which a database rejects the writes of a stale holder.

use std::fmt;

use clap::ValueEnum;
use reentry::FenceSql;
use serde::Serialize;

use crate::args::Global;
use crate::exit::Exit;
use crate::output::print;

/// Print the SQL with which a database rejects a stale holder
///
/// The output creates a table, and for Postgres a function. Its comments say which isolation level is needed, and why.
/// A comment at its end contains the statement that must come first in each transaction.
///
/// For example: reentry fence postgres | psql shop
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Type of the database
    database: Database,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Database {
    Postgres,
    /// MySQL or MariaDB
    #[value(alias = "mariadb")]
    Mysql,
    Sqlite,
}

pub(crate) fn run(args: &Args, global: &Global) -> anyhow::Result<Exit> {
    let sql = match args.database {
        Database::Postgres => FenceSql::Postgres,
        Database::Mysql => FenceSql::MySql,
        Database::Sqlite => FenceSql::Sqlite,
    };
    let script = Script {
        setup: sql.setup(),
        statement: sql.statement(),
    };
    print(global, &script)?;
    Ok(Exit::Success)
}

#[derive(Debug, Serialize)]
struct Script {
    setup: &'static str,
    statement: &'static str,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.setup)?;
        writeln!(f, "-- The first statement of each transaction:")?;
        writeln!(f, "--")?;
        for line in self.statement.lines() {
            writeln!(f, "--     {line}")?;
        }
        Ok(())
    }
}
