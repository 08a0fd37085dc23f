//! Family, code and remedy of each error.

use unsnap_failure::{Code, Failure, Family, Remedy};

use crate::{StorageError, accounts::AccountsError};

impl Failure for StorageError {
    fn family(&self) -> Family {
        Family::BadArchive
    }

    fn code(&self) -> Code {
        Code::BadStorage
    }
}

impl Failure for AccountsError {
    fn family(&self) -> Family {
        match self {
            // Another part of the run failed, and says why.
            Self::Stopped => Family::Cancelled,
            error if error.is_bad_archive() => Family::BadArchive,
            _ => Family::Environment,
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Stopped => Code::Cancelled,
            error if error.is_bad_archive() => Code::WrongAccounts,
            _ => Code::VerifySpace,
        }
    }

    fn remedy(&self) -> Option<Remedy> {
        self.is_bad_archive().then_some(Remedy::FetchElsewhere)
    }
}
