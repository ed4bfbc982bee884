//! ACME orders: from the account to the issued certificate.

use super::cache::Cache;
use super::http::Https;
use crate::acme::settings::Acme;
use crate::{ServerCertificates, TlsError};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, ChallengeType, Error, Identifier, NewAccount, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long to poll the CA while it validates a challenge and signs.
const LOOKS: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).timeout(Duration::from_secs(60));
const NO_SUCH_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
/// Length of the digest in a challenge.
const DIGEST: usize = 32;

/// Why an order produced no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcmeError {
    #[error("CA unreachable: {0}")]
    Away(Error),
    #[error("the CA did not finish the order: {0}")]
    Unfinished(Error),
    #[error("the CA refused: {0}")]
    Refused(String),
    #[error(
        "the CA offers no tls-alpn-01 challenge for {0}; for a wildcard, use another ACME client and `gateway.tls.certificates`"
    )]
    NoChallenge(String),
    #[error("the CA no longer knows the account; creating a new one")]
    Forgotten,
    #[error("not finished within {0:?}")]
    Late(Duration),
    #[error("cannot write {}: {cause}", file.display())]
    Unwritable { file: PathBuf, cause: io::Error },
    #[error("cannot create the certificate request: {0}")]
    Unmade(#[from] rcgen::Error),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl From<Error> for AcmeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => Self::Refused(problem.to_string()),
            other => Self::Away(other),
        }
    }
}

impl AcmeError {
    /// Marks an error that occurred after the order was created: the CA has counted the order, even if it is
    /// unreachable now.
    fn after_it_began(self) -> Self {
        match self {
            Self::Away(error) => Self::Unfinished(error),
            other => other,
        }
    }

    /// Whether an early retry would only count against the CA's rate limits: it counts orders, whatever their
    /// result.
    pub(super) const fn is_refusal(&self) -> bool {
        !matches!(self, Self::Away(_) | Self::Forgotten)
    }
}

/// Creates ACME orders.
pub(super) struct Orders {
    https: Https,
    certificates: Arc<ServerCertificates>,
    directory: String,
    contact: Vec<String>,
    domains: Vec<String>,
}

impl Orders {
    pub(super) fn new(acme: &Acme, certificates: Arc<ServerCertificates>) -> Result<Self, TlsError> {
        Ok(Self {
            https: Https::new(acme.ca.as_deref())?,
            certificates,
            directory: acme.directory.clone(),
            contact: acme.contact.clone(),
            domains: acme.domains.clone(),
        })
    }

    /// Orders a certificate. Returns the key and the chain as PEM.
    pub(super) async fn order(&self, cache: &Cache) -> Result<String, AcmeError> {
        let account = self.account(cache).await?;
        let identifiers: Vec<Identifier> = self.domains.iter().cloned().map(Identifier::Dns).collect();
        let mut order = match account.new_order(&NewOrder::new(&identifiers)).await {
            Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(NO_SUCH_ACCOUNT) => {
                cache.forget_account();
                return Err(AcmeError::Forgotten);
            }
            order => order?,
        };
        self.finish(&mut order).await.map_err(AcmeError::after_it_began)
    }

    async fn finish(&self, order: &mut Order) -> Result<String, AcmeError> {
        self.authorize(order).await?;
        if order.poll_ready(&LOOKS).await? != OrderStatus::Ready {
            return Err(self.refusal(order).await);
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(self.domains.clone())?;
        params.distinguished_name = DistinguishedName::new();
        order.finalize_csr(params.serialize_request(&key)?.der()).await?;
        let chain = order.poll_certificate(&LOOKS).await?;
        Ok(format!("{}{chain}", key.serialize_pem()))
    }

    /// Loads the stored account, or registers a new one.
    async fn account(&self, cache: &Cache) -> Result<Account, AcmeError> {
        let builder = || Account::builder_with_http(Box::new(self.https.clone()));
        let kept = cache.account().and_then(|text| serde_json::from_str::<AccountCredentials>(&text).ok());
        if let Some(credentials) = kept {
            return Ok(builder().from_credentials(credentials).await?);
        }
        let contact: Vec<&str> = self.contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) = builder().create(&new, self.directory.clone(), None).await?;
        let text = serde_json::to_string(&credentials).map_err(Error::Json)?;
        let unwritable = |cause| AcmeError::Unwritable { file: cache.account_file(), cause };
        cache.store_account(&text).map_err(unwritable)?;
        Ok(account)
    }

    /// Answers the challenge of each domain that the CA has not validated yet.
    async fn authorize(&self, order: &mut Order) -> Result<(), AcmeError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let domain = authorization.identifier().to_string();
            let challenge = authorization.challenge(ChallengeType::TlsAlpn01);
            let mut challenge = challenge.ok_or_else(|| AcmeError::NoChallenge(domain.clone()))?;
            let key_authorization = challenge.key_authorization();
            let digest = key_authorization.digest();
            let digest: [u8; DIGEST] = digest.as_ref().try_into().map_err(|_| Error::Crypto)?;
            let key = KeyPair::generate()?;
            let mut params = CertificateParams::new(vec![domain.clone()])?;
            params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
            let shown = params.self_signed(&key)?;
            self.certificates.answer_challenge(&domain, shown.der().clone(), key.serialize_der())?;
            challenge.set_ready().await?;
        }
        Ok(())
    }

    /// Collects the reasons that the CA reports for its challenges.
    async fn refusal(&self, order: &mut Order) -> AcmeError {
        let mut found = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(Ok(authorization)) = authorizations.next().await {
            let errors = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
            found.extend(errors.map(|error| format!("{}: {error}", authorization.identifier())));
        }
        if found.is_empty() {
            found.push("the order is not valid; the CA gave no reason".to_owned());
        }
        AcmeError::Refused(found.join("; "))
    }
}
