//! Certificates of the tests, made as they are needed.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use reqwest::{Certificate, ClientBuilder, Identity};

/// Somebody who signs certificates.
pub(crate) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().expect("a key");
        let pem = params
            .self_signed(&key)
            .expect("a certificate of an authority")
            .pem();
        Self {
            pem,
            issuer: Issuer::new(params, key),
        }
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// For a server that goes by these names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Pair {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// For a client.
    pub(crate) fn client(&self, name: &str) -> Pair {
        self.sign(&[name], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of a certificate");
        params.key_usages.push(KeyUsagePurpose::DigitalSignature);
        params.extended_key_usages.push(usage);
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair {
            cert,
            key: key.serialize_pem(),
        }
    }

    /// A client that trusts this authority alone.
    pub(crate) fn trusting(&self) -> ClientBuilder {
        countersign_config::tls::install_provider();
        let certificate = Certificate::from_pem(self.pem.as_bytes()).expect("the authority");
        reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([certificate])
            .tls_info(true)
    }
}

impl Pair {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_pem(format!("{}{}", self.cert, self.key).as_bytes()).expect("an identity")
    }

    /// The certificate in the form that a client sees.
    pub(crate) fn der(&self) -> Vec<u8> {
        use rustls::pki_types::{CertificateDer, pem::PemObject};
        CertificateDer::from_pem_slice(self.cert.as_bytes())
            .expect("a certificate")
            .to_vec()
    }
}
