import { afterAll, beforeAll, expect, test } from 'vitest';
import { selfSignedCertificate, startSignaling, type SignalingServer } from '../../../signaling/index.ts';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ORIGINS = ['https://class.example'];

let folder: string;
let plain: SignalingServer;
let secure: SignalingServer;
let behindProxy: SignalingServer;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-headers-'));
  plain = await startSignaling({ origins: ORIGINS, logLevel: 'silent' });
  behindProxy = await startSignaling({ origins: ORIGINS, logLevel: 'silent', trustProxy: true });
  secure = await startSignaling({ origins: ORIGINS, logLevel: 'silent', tls: await selfSignedCertificate(folder) });
});
afterAll(async () => {
  await Promise.all([plain, secure, behindProxy].map((server) => server.close()));
  await rm(folder, { recursive: true });
});

/** Resolves with the headers of the response to a request whose Host header is `host`. */
function headers(
  { url, port }: SignalingServer,
  host: string,
  others: Record<string, string> = {},
): Promise<Record<string, unknown>> {
  const ask = url.startsWith('https') ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    ask({ host: '127.0.0.1', port, headers: { host, ...others }, rejectUnauthorized: false, agent: false }, (res) => {
      res.resume();
      resolve(res.headers);
    })
      .on('error', reject)
      .end();
  });
}

async function policy(server: SignalingServer, host: string): Promise<Map<string, string>> {
  const text = String((await headers(server, host))['content-security-policy']);
  return new Map(text.split('; ').map((directive) => directive.split(/ (.*)/, 2) as [string, string]));
}

test('pages run only their own scripts', async () => {
  const directives = await policy(plain, 'class.example:8080');
  expect(directives.get('default-src')).toBe("'none'");
  for (const name of ['worker-src', 'style-src']) expect(directives.get(name)).toBe("'self'");
  expect(directives.get('script-src')).toBe("'self' 'wasm-unsafe-eval'");
  for (const name of ['base-uri', 'form-action', 'frame-ancestors']) expect(directives.get(name)).toBe("'none'");
  expect([...directives.values()].join()).not.toMatch(/'unsafe|blob:|data:|\*/);
});

test('pages may open WebSockets only to their own host, and may fetch data from any host', async () => {
  const expected: [SignalingServer, string, string][] = [
    [plain, 'class.example:8080', "'self' ws://class.example:8080 wss://class.example:8080 https: http:"],
    [secure, 'class.example', "'self' ws://class.example wss://class.example https:"],
    [plain, '[::1]:8080', "'self' https: http:"],
    [plain, "x; script-src 'unsafe-inline'", "'self' https: http:"],
  ];
  for (const [server, host, sources] of expected) {
    expect((await policy(server, host)).get('connect-src')).toBe(sources);
  }
});

test('pages send no referrer, may not use the camera, and may keep the screen on', async () => {
  const all = await headers(plain, 'class.example');
  expect(all['referrer-policy']).toBe('no-referrer');
  expect(all['permissions-policy']).toMatch(/camera=\(\).*screen-wake-lock=\(self\)/);
});

const OPENER = 'cross-origin-opener-policy';

test('pages have their own browsing context group over https, and over http on localhost', async () => {
  expect((await headers(plain, 'class.example:8080'))[OPENER]).toBeUndefined();
  expect((await headers(plain, 'localhost:8080'))[OPENER]).toBe('same-origin');
  expect((await headers(secure, 'class.example:8080'))[OPENER]).toBe('same-origin');
  const forwarded = { 'x-forwarded-proto': 'https' };
  expect((await headers(plain, 'class.example', forwarded))[OPENER]).toBeUndefined();
  expect((await headers(behindProxy, 'class.example', forwarded))[OPENER]).toBe('same-origin');
});

test('all pages may embed only resources that allow it, so their scripts stay valid when a proxy begins to forward https', async () => {
  const all = await Promise.all([plain, secure, behindProxy].map((server) => headers(server, 'class.example')));
  expect(all.map((each) => each['cross-origin-embedder-policy'])).toEqual(Array(3).fill('require-corp'));
});
