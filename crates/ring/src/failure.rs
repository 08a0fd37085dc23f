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
        limit_remedy(Some(self.errno)).or(Some(Remedy::OtherEngine))
    }

    fn errno(&self) -> Option<Errno> {
        Some(self.errno)
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
            Self::Ring { .. } | Self::Refused(_) => {
                limit_remedy(EngineError::errno(self)).or(Some(Remedy::ThreadsEngine))
            }
            error => EngineError::errno(error).and_then(Remedy::of_errno),
        }
    }

    fn errno(&self) -> Option<Errno> {
        EngineError::errno(self)
    }
}

/// Returns the remedy for a limit that another engine would exceed as well.
fn limit_remedy(errno: Option<Errno>) -> Option<Remedy> {
    errno.filter(|&errno| errno == Errno::MFILE).and_then(Remedy::of_errno)
}
