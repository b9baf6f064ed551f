//! The slot of a key in a Redis Cluster: the first part of the order in which several locks are taken.

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 1 << 14;

/// The slot of a key.
pub(crate) fn of(key: &[u8]) -> u16 {
    let position = |of: u8, within: &[u8]| within.iter().position(|&byte| byte == of);
    let tag = position(b'{', key).and_then(|open| {
        let rest = key.get(open + 1..)?;
        rest.get(..position(b'}', rest)?)
            .filter(|tag| !tag.is_empty())
    });
    of_tag(tag.unwrap_or(key))
}

/// The slot of the keys with this hash tag, as the
/// [cluster specification](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/) has it.
fn of_tag(tag: &[u8]) -> u16 {
    tag.iter().copied().fold(0, crc16) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(crc: u16, byte: u8) -> u16 {
    (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
        let carries = crc & 0x8000 != 0;
        (crc << 1) ^ if carries { 0x1021 } else { 0 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `CLUSTER KEYSLOT` says.
    #[test]
    fn the_slot_is_that_of_redis_cluster() {
        for (tag, slot) in [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("bar", 5_061),
        ] {
            assert_eq!(of_tag(tag.as_bytes()), slot, "{tag}");
        }
    }

    #[test]
    fn what_stands_in_the_first_braces_decides() {
        for (key, tag) in [
            ("order:{foo}", "foo"),
            ("{foo}{bar}", "foo"),
            ("{}foo", "{}foo"),
            ("{foo", "{foo"),
            ("{{foo}}", "{foo"),
        ] {
            assert_eq!(of(key.as_bytes()), of_tag(tag.as_bytes()), "{key}");
        }
    }
}
