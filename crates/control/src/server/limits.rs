//! Limits of the server.

/// Bounds on the resources of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most connections to the Unix socket at a time. An eighth of them, at least one, is reserved
    /// for clients that may operate. Default: 64, a guess: many times what people and scripts on
    /// one machine use.
    pub connections_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections_max: 64 }
    }
}
