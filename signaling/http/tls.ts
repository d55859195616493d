/**
 * Certificates for https. Browsers allow WebGPU in a page of another machine only over https. The
 * certificate comes from files of the user, or is self-signed. A self-signed certificate is cached,
 * so that the exception that a user adds in the browser stays valid after a restart.
 */
import { createHash, X509Certificate } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { errorReasonOf, UsageError } from '../../src/util/errors.ts';
import { localAddresses } from './address.ts';

export interface Certificate {
  /** Certificate in PEM format, with intermediate certificates if there are any. */
  cert: string;
  /** PEM. */
  key: string;
}

/** Days for which a self-signed certificate is valid. Browsers accept at most 398. */
const VALID_DAYS = 365;
const DAY_MS = 24 * 60 * 60 * 1000;
/** Days before the expiry at which a cached certificate is renewed. */
const RENEW_DAYS = 7;

/**
 * Reads a certificate and its key.
 * @throws (rejects) UsageError if a file is missing or the two files are not a certificate and its
 * key.
 */
export async function readCertificate(certFile: string, keyFile: string): Promise<Certificate> {
  const [cert, key] = await Promise.all([readPem(certFile, '--cert'), readPem(keyFile, '--key')]);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    throw new UsageError(`${certFile} and ${keyFile} are not a PEM certificate and its key: ${errorReasonOf(error)}.`);
  }
  return { cert, key };
}

async function readPem(file: string, option: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new UsageError(`The file ${file} cannot be read. Pass the path of a PEM file with ${option}.`);
  }
}

/** Returns the folder of cached self-signed certificates. */
function certificateCache(): string {
  return path.join(process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'), 'peergrad');
}

/**
 * Returns a self-signed certificate for localhost and this machine's name and addresses. It is the
 * same certificate until the addresses change or the certificate is about to expire. If the folder
 * `cache` is not writable, the certificate exists only until the process ends.
 */
export async function selfSignedCertificate(cache = certificateCache()): Promise<Certificate> {
  const names = ['localhost', hostname(), `${hostname()}.local`];
  const addresses = ['127.0.0.1', '::1', ...localAddresses()];
  const id = createHash('sha256')
    .update([...names, ...addresses].sort().join())
    .digest('hex')
    .slice(0, 12);
  const file = path.join(cache, `selfsigned-${id}.json`);
  const kept = await readCached(file);
  if (kept !== null) return kept;

  // The package `selfsigned` is loaded only when needed, because loading it takes longer than most
  // commands.
  const { generate } = await import('selfsigned');
  const made = await generate([{ name: 'commonName', value: 'peergrad' }], {
    keyType: 'ec',
    algorithm: 'sha256',
    notAfterDate: new Date(Date.now() + VALID_DAYS * DAY_MS),
    extensions: [
      { name: 'basicConstraints', cA: false },
      { name: 'keyUsage', digitalSignature: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          ...names.map((value) => ({ type: 2 as const, value })),
          ...addresses.map((ip) => ({ type: 7 as const, ip })),
        ],
      },
    ],
  });
  const certificate = { cert: made.cert, key: made.private };
  try {
    await mkdir(cache, { recursive: true });
    await writeFile(file, JSON.stringify(certificate), { mode: 0o600 });
  } catch {
    // The folder is read-only, so the certificate is not cached. After a restart, the browser will
    // show its warning again.
  }
  return certificate;
}

async function readCached(file: string): Promise<Certificate | null> {
  try {
    const { cert, key } = JSON.parse(await readFile(file, 'utf8')) as Certificate;
    createSecureContext({ cert, key });
    const endsAt = Date.parse(new X509Certificate(cert).validTo);
    return endsAt - Date.now() > RENEW_DAYS * DAY_MS ? { cert, key } : null;
  } catch {
    return null;
  }
}

/**
 * Returns the SHA-256 fingerprint of a certificate, `AB:CD:...`, as the certificate viewer of a
 * browser shows it.
 */
export function fingerprint(certificate: Certificate): string {
  return new X509Certificate(certificate.cert).fingerprint256;
}
