//! What metrics say of keys.

use std::sync::Arc;

use super::LocksBuilder;
use crate::base::metrics::Class;

impl LocksBuilder {
    /// What the metrics say of a key: the label `class` (default: there is none).
    ///
    /// Keys are no labels, since each combination of labels is a time series of its own, and there may be
    /// millions of keys. So let there be few classes, and let them depend on what the key is about rather than on the number in
    /// it. `class` is called for each acquisition, with the key without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // "order:42" is counted as "order".
    /// let locks = reentry::Locks::builder()
    ///     .url("memory:")
    ///     .metrics_class(|key| key.split(':').next().unwrap_or("other").to_owned())
    ///     .build()
    ///     .await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn metrics_class<S: Into<Arc<str>>>(
        mut self,
        class: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> Self {
        self.class = Some(Class::new(class));
        self
    }
}
