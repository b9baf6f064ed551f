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
        let json = self::ended(&["--json", "fence", name]).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["setup"], sql.setup(), "{name}");
        assert_eq!(json["statement"], sql.statement(), "{name}");
    }
}
