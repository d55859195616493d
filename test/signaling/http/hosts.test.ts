/** Hosts to which the server answers. Pages of other sites may let their names resolve to it. */
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { hostname, networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AnsweredHosts } from '../../../signaling/http/hosts.ts';
import { selfSignedCertificate, startSignaling, type SignalingServer } from '../../../signaling/index.ts';

const LISTED = ['https://class.example', 'http://lab.example:8080/'];
const OWN = { host: '0.0.0.0', tls: null, origins: [], trustProxy: false };

let folder: string;
let server: SignalingServer;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-hosts-'));
  await writeFile(path.join(folder, 'train-labels-idx1-ubyte'), 'labels');
  server = await startSignaling({ data: folder, origins: LISTED, logLevel: 'silent' });
});
afterAll(async () => {
  await server.close();
  await rm(folder, { recursive: true });
});

/** Resolves with the response to a request whose first lines are `lines`. */
async function response(...lines: string[]): Promise<string> {
  const socket = connect(server.port, '127.0.0.1');
  let text = '';
  socket.on('data', (data: Buffer) => (text += data.toString()));
  socket.write([...lines, 'Connection: close', '', ''].join('\r\n'));
  await once(socket, 'close');
  return text;
}

const refusalOf = (host: string | undefined, options: Partial<ConstructorParameters<typeof AnsweredHosts>[0]> = {}) =>
  new AnsweredHosts({ ...OWN, ...options }).refusalOf({ headers: { host } } as never);

describe('a request with the host of another site', () => {
  const PATHS = ['/metrics', '/data/index.json', '/data/train-labels-idx1-ubyte', '/origins.json', '/healthz', '/'];

  test.each(PATHS)('is refused, and the message names the option: %s', async (pathname) => {
    const text = await response(`GET ${pathname} HTTP/1.1`, 'Host: evil.example:8080');
    expect(text).toMatch(
      /^HTTP\/1\.1 421 [^]*not answer to the host evil\.example:8080\. .*--origin http:\/\/evil\.example:8080\.\n$/,
    );
  });

  test('is also refused for a WebSocket, even from a page of that site', async () => {
    const text = await response(
      'GET /signal HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\nUpgrade: websocket',
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nConnection: Upgrade',
    );
    expect(text).toMatch(/^HTTP\/1\.1 421 [^]*--origin http:\/\/evil\.example\.\n$/);
  });

  test.each(['HTTP/1.0', 'HTTP/1.1\r\nHost:'])('is also refused without a host: %j', async (version) => {
    expect(await response(`GET /metrics ${version}`)).toMatch(/^HTTP\/1\.1 421 [^]*no valid Host header/);
  });

  test.each([
    'localhost.evil.example',
    '127.0.0.1.evil.example',
    'evil-localhost',
    'evil.example.',
    'class.example.evil.example',
    'sub.class.example',
    'localhost@evil.example',
    'evil.example#localhost',
    'evil.example/localhost',
    'evil.example, localhost',
    '203.0.113.7',
    '[2001:db8::7]',
    '[::ffff:203.0.113.7]',
    `${hostname()}.evil.example`,
    'localhost:99999',
    '',
  ])('is refused however the host is written: %s', (host) => {
    expect(refusalOf(host, { origins: LISTED })).not.toBeNull();
  });
});

describe('the server answers to', () => {
  test.each([
    'localhost',
    'localhost:8080',
    'LocalHost.',
    'app.localhost:5173',
    '127.0.0.1:8080',
    '127.8.9.10',
    '[::1]:8080',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]:80',
    hostname(),
    `${hostname().toUpperCase()}:8080`,
    `${hostname().split('.', 1)[0]}.local.`,
    'Class.Example',
    'class.example:443',
    'lab.example',
    'master.lan:8080',
  ])('names and addresses of this machine, of --host and of its origins: %s', (host) => {
    expect(refusalOf(host, { host: 'master.lan', origins: LISTED })).toBeNull();
  });

  test('all addresses of this machine', () => {
    const all = Object.values(networkInterfaces()).flatMap((one) => one ?? []);
    const hosts = all.map(({ address, family }) => (family === 'IPv6' ? `[${address}]:8080` : `${address}:8080`));
    expect(hosts.filter((host) => refusalOf(host) !== null)).toEqual([]);
  });

  test('the names of its certificate', async () => {
    const tls = await selfSignedCertificate(folder);
    expect(['localhost', `${hostname()}.local`, 'evil.example'].map((host) => refusalOf(host, { tls }))).toEqual([
      null,
      null,
      expect.stringContaining('--origin https://evil.example.'),
    ]);
  });

  test('the public name that its reverse proxy forwards, if an option allows it', async () => {
    expect(await response('GET /data/train-labels-idx1-ubyte HTTP/1.1', 'Host: class.example')).toMatch(/labels$/);
    expect(refusalOf('school.example', { trustProxy: true })).toContain('--origin https://school.example.');
  });
});
