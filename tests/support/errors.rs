//! The errors with which a server has responded, from `INFO errorstats`.

use super::server::RedisServer;

/// The figure with this name in a line with this prefix; 0 if there is none.
fn figure(info: &str, line: &str, name: &str) -> u64 {
    let mut lines = info.lines();
    let figures = lines.find_map(|it| it.strip_prefix(line)?.strip_prefix(':'));
    let mut figures = figures.unwrap_or_default().split(',');
    let figure = figures.find_map(|it| it.trim_end().strip_prefix(name)?.strip_prefix('='));
    figure.map_or(0, |figure| figure.parse().expect("a number"))
}

impl RedisServer {
    /// Returns whether the server is of a series before 7.0.
    pub async fn is_old(&self) -> bool {
        self.ask("INFO server").await.contains("redis_version:6.")
    }

    /// The number of responses with this error.
    pub async fn errors(&self, code: &str) -> u64 {
        let stats = self.ask("INFO errorstats").await;
        figure(&stats, &format!("errorstat_{code}"), "count")
    }

    /// The number of times that a script met this error. Before 7.0 the codes inside scripts are not counted. There
    /// each failed script counts.
    pub async fn errors_of_scripts(&self, code: &str) -> u64 {
        if !self.is_old().await {
            return self.errors(code).await;
        }
        let stats = self.ask("INFO commandstats").await;
        let failed = |command| figure(&stats, command, "failed_calls");
        let failed = failed("cmdstat_evalsha") + failed("cmdstat_eval");
        failed - self.errors("NOSCRIPT").await
    }
}
