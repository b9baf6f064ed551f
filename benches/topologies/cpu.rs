//! The CPU time that was used.

use crate::support::RedisServer;
use rustix::time::{ClockId, clock_gettime};

/// The CPU time of this process so far, in µs.
pub(crate) fn own() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The CPU time of these servers so far, in µs.
pub(crate) async fn of(servers: &[RedisServer]) -> f64 {
    let mut sum = 0.0;
    for server in servers {
        let info = server.ask("INFO cpu").await;
        sum += field(&info, "used_cpu_user:") + field(&info, "used_cpu_sys:");
    }
    sum * 1e6
}

/// The CPU time of these servers so far inside the scripts that were sent, in µs.
pub(crate) async fn inside(servers: &[RedisServer]) -> f64 {
    let mut sum = 0.0;
    for server in servers {
        let info = server.ask("INFO commandstats").await;
        let line = info
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"));
        let fields = line.unwrap_or_default().split(',');
        sum += fields.map(|it| field(it, "usec=")).sum::<f64>();
    }
    sum
}

fn field(info: &str, name: &str) -> f64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name));
    value
        .and_then(|it| it.trim_end().parse().ok())
        .unwrap_or_default()
}
