//! The pages of the guide whose examples are services: here their code is tested.

#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/services.md")]
mod services {}

#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/shutdown.md")]
mod shutdown {}
