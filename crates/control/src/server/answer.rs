//! Interface of the service that the server belongs to.

use crate::protocol::{Answered, Refusal, Request};

/// The service behind the server. Called on the event loop's thread, so it must not block: every
/// client waits meanwhile. The server has checked the client's rights before it calls.
pub trait Answer: Send + Sync {
    /// Carries out a request. `Watch` is answered like `Status`.
    fn answer(&self, request: Request) -> Result<Answered, Refusal>;
}
