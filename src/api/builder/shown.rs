//! How others see a `Locks`: its process, and its keys in metrics.

use std::sync::Arc;

use super::LocksBuilder;
#[cfg(feature = "metrics")]
use crate::base::metrics::Classifier;

impl LocksBuilder {
    /// Sets the name of this process, shown to those who inspect its locks (default: the name of the executable file).
    ///
    /// Waiters, operators and `CLIENT LIST` see it next to the process id and the host. See
    /// [`Process`](crate::admin::Process). The name applies to the whole process. If several `Locks` are built with names, the
    /// last one applies, from the next connection on. At most 100 characters are shown.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// use reentry::LockError;
    ///
    /// let locks = reentry::Locks::builder("memory:").name("orders").build().await?;
    /// let _guard = locks.lock("order:42").await?;
    /// let late = locks.lock("order:42").wait(Duration::from_secs(1)).await;
    /// let Err(LockError::Busy { holder: Some(holder), .. }) = late else { panic!("it is held") };
    /// assert_eq!(holder.process.map(|process| process.name).as_deref(), Some("orders"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the label `class` of a key in the metrics (default: no label).
    ///
    /// Do not use the key itself as the label. Each combination of labels is a separate time series, and there may be
    /// millions of keys. Use few classes, and derive them from the subject of the key, not from a number in it. `class`
    /// is called for each acquisition, with the key without the prefix.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reentry::LockError> {
    /// // "order:42" is counted as "order".
    /// let locks = reentry::Locks::builder("memory:")
    ///     .metrics_class(|key| key.split(':').next().unwrap_or("other").to_owned())
    ///     .build()
    ///     .await?;
    /// assert_eq!(locks.with_lock("order:42", async { 6 * 7 }).await?, 42);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn metrics_class<S: Into<Arc<str>>>(
        mut self,
        class: impl Fn(&str) -> S + Send + Sync + 'static,
    ) -> Self {
        self.class = Classifier::new(class);
        self
    }
}
