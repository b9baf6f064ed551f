//! `reentry fence`.

use reentry::FenceSql;

use crate::program::ended;

const DATABASES: [(&str, FenceSql); 4] = [
    ("postgres", FenceSql::Postgres),
    ("mysql", FenceSql::MySql),
    ("mariadb", FenceSql::MySql),
    ("sqlite", FenceSql::Sqlite),
];

#[test]
fn the_sql_of_a_database_is_that_of_the_crate() {
    for (name, sql) in DATABASES {
        let ended = ended(&["fence", name]);
        assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{name}");
        let rest = ended.out.strip_prefix(sql.setup());
        let rest = rest.unwrap_or_else(|| panic!("{name}: {}", ended.out));
        // The rest is for the reader, and is a comment for the database.
        assert!(
            rest.lines()
                .all(|line| line.is_empty() || line.starts_with("--"))
        );
        for line in sql.statement().lines() {
            assert!(rest.contains(line), "{name}: {rest}");
        }
    }
}

#[test]
fn json_has_the_setup_and_the_statement() {
    for (name, sql) in DATABASES {
        let ended = ended(&["--json", "fence", name]);
        let json: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(json["setup"], sql.setup(), "{name}");
        assert_eq!(json["statement"], sql.statement(), "{name}");
    }
}

#[test]
fn a_database_that_is_unknown_is_a_wrong_argument() {
    let ended = ended(&["fence", "dbase"]);
    assert_eq!(ended.code, Some(125));
    assert!(ended.err.contains("dbase"), "{}", ended.err);
}
