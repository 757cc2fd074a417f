//! What a client of a gateway trusts: one pinned certificate, or the machine's own authorities.

use std::{fmt, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use rustls_platform_verifier::Verifier;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::provider::provider;

/// SHA-256 of a certificate in DER form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// A text that is no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a certificate fingerprint has 64 hexadecimal digits, with or without colons between the bytes")]
pub struct InvalidFingerprint;

impl Fingerprint {
    /// Reads 64 hexadecimal digits; `sha256:` before them and colons between them are fine.
    ///
    /// # Errors
    /// [`InvalidFingerprint`] for anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidFingerprint> {
        let text = text.trim();
        let prefix = text
            .get(..7)
            .filter(|prefix| prefix.eq_ignore_ascii_case("sha256:"));
        let digits = prefix.and_then(|prefix| text.get(prefix.len()..)).unwrap_or(text);
        let digits: Vec<char> = digits.chars().filter(|digit| *digit != ':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(InvalidFingerprint);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            for digit in pair {
                let value = digit.to_digit(16).and_then(|value| u8::try_from(value).ok());
                *byte = (*byte << 4) | value.ok_or(InvalidFingerprint)?;
            }
        }
        Ok(Self(bytes))
    }

    fn is_of(&self, certificate: &CertificateDer<'_>) -> bool {
        let found = Sha256::digest(certificate.as_ref());
        bool::from(found.as_slice().ct_eq(&self.0))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&countersign_domain::hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// What a client trusts: only the certificate with this fingerprint, or all that the machine's authorities vouch for.
///
/// # Errors
/// When the machine has no authorities that can be read.
pub fn client_config(pinned: Option<Fingerprint>) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let verifier: Arc<dyn ServerCertVerifier> = match pinned {
        Some(fingerprint) => Arc::new(Pinned {
            fingerprint,
            provider: Arc::clone(&provider),
        }),
        None => Arc::new(Verifier::new(Arc::clone(&provider))?),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Takes one certificate, no matter who issued it and what its name is: a person compared it. The handshake still
/// checks that the other side has its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.fingerprint.is_of(end_entity) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(
                CertificateError::ApplicationVerificationFailure,
            ))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_in_every_usual_spelling() {
        let plain = "00ff".repeat(16);
        let colons: Vec<String> = plain
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        for text in [
            plain.clone(),
            colons.join(":"),
            format!("sha256:{plain}"),
            format!(" SHA256:{} ", colons.join(":")),
        ] {
            assert_eq!(Fingerprint::parse(&text).unwrap().to_string(), plain, "{text}");
        }
        for text in [
            "",
            "00",
            &"0".repeat(63),
            &"0".repeat(65),
            &"g0".repeat(32),
            &"é".repeat(32),
        ] {
            assert_eq!(Fingerprint::parse(text), Err(InvalidFingerprint), "{text}");
        }
    }

    #[test]
    fn only_the_pinned_certificate_is_taken() {
        let certificate = CertificateDer::from(b"certificate".to_vec());
        let of = |text: &[u8]| Fingerprint(Sha256::digest(text).into());
        assert!(of(b"certificate").is_of(&certificate));
        assert!(!of(b"certificatf").is_of(&certificate));
    }
}
