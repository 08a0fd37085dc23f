//! Family, code and remedy of each error.

use unsnap_failure::{Code, Errno, Failure, Family, Remedy};

use crate::{EngineError, UringRefused};

impl Failure for UringRefused {
    fn family(&self) -> Family {
        Family::Environment
    }

    fn code(&self) -> Code {
        Code::UringRefused
    }

    fn remedy(&self) -> Option<Remedy> {
        self.limit_remedy().or(Some(Remedy::OtherEngine))
    }

    fn errno(&self) -> Option<Errno> {
        Some(self.errno)
    }
}

impl UringRefused {
    /// Returns the remedy for a limit that every engine would exceed.
    fn limit_remedy(self) -> Option<Remedy> {
        match self.errno {
            Errno::MFILE => Remedy::of_errno(self.errno),
            _ => None,
        }
    }
}

impl Failure for EngineError {
    fn family(&self) -> Family {
        Family::Environment
    }

    fn code(&self) -> Code {
        match self {
            Self::Refused(_) => Code::UringRefused,
            error => EngineError::errno(error).map_or(Code::System, Code::of_errno),
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Refused(refused) => refused.limit_remedy().or(Some(Remedy::ThreadsEngine)),
            Self::Ring { .. } => Some(Remedy::ThreadsEngine),
            error => EngineError::errno(error).and_then(Remedy::of_errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        EngineError::errno(self)
    }
}
