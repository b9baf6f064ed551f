//! What every operation of a store returns.

use std::pin::Pin;

use crate::base::error::StoreError;

pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;
