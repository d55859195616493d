import { createHmac } from 'node:crypto';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { UsageError } from '../../../src/util/errors.ts';
import { checkIceOptions, iceServersFor, NO_ICE, renewIceAfterMs } from '../../../signaling/ice.ts';
import { fingerprint, readCertificate, selfSignedCertificate, startSignaling } from '../../../signaling/index.ts';
import { TestMember } from '../helpers.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'peergrad-tls-'));
});
afterAll(() => rm(folder, { recursive: true }));

test('a self-signed certificate is stored readable only for the user, and is replaced if its file is damaged', async () => {
  const cache = path.join(folder, 'cache');
  const first = await selfSignedCertificate(cache);
  expect(fingerprint(first)).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/);
  expect(await selfSignedCertificate(cache)).toEqual(first);
  const [name] = await readdir(cache);
  const file = path.join(cache, name!);
  expect((await stat(file)).mode & 0o077).toBe(0);
  await writeFile(file, '{}');
  expect(fingerprint(await selfSignedCertificate(cache))).not.toBe(fingerprint(first));
});

test('a certificate that cannot be stored is kept in memory', async () => {
  await writeFile(path.join(folder, 'file'), '');
  const certificate = await selfSignedCertificate(path.join(folder, 'file', 'cache'));
  expect(certificate.key).toContain('PRIVATE KEY');
});

test('members connect over wss', async () => {
  const tls = await selfSignedCertificate(path.join(folder, 'cache'));
  const server = await startSignaling({ tls, logLevel: 'silent' });
  expect(server.url).toMatch(/^https:/);
  const ada = new TestMember(server, { rejectUnauthorized: false });
  await ada.join('AAAAAA');
  expect((await ada.next('refused')).code).toBe('no-room');
  await server.close();
});

test('certificate files are rejected if they cannot be read or do not belong together', async () => {
  const { cert, key } = await selfSignedCertificate(path.join(folder, 'cache'));
  const other = await selfSignedCertificate(path.join(folder, 'other'));
  const at = (name: string) => path.join(folder, name);
  await Promise.all([writeFile(at('c.pem'), cert), writeFile(at('k.pem'), key), writeFile(at('o.pem'), other.key)]);
  expect(await readCertificate(at('c.pem'), at('k.pem'))).toEqual({ cert, key });
  await expect(readCertificate(at('c.pem'), at('none.pem'))).rejects.toThrow(
    /none.pem cannot be read\. Pass the path of a PEM file with --key/,
  );
  await expect(readCertificate(at('c.pem'), at('o.pem'))).rejects.toThrow(UsageError);
  await expect(readCertificate(at('k.pem'), at('c.pem'))).rejects.toThrow(/not a PEM certificate and its key/);
});

test('TURN passwords have the format of coturn, differ between members, and are valid for two hours', () => {
  const ice = { ...NO_ICE, stun: ['stun:a.example'], turn: ['turn:b.example:3478'], turnSecret: 'north' };
  const credential = createHmac('sha1', 'north').update('1007200:Ada').digest('base64');
  expect(iceServersFor('Ada', ice, 1_000_000_000)).toEqual([
    { urls: ['stun:a.example'] },
    { urls: ['turn:b.example:3478'], username: '1007200:Ada', credential },
  ]);
  expect(iceServersFor('Ada', NO_ICE, 0)).toEqual([]);
});

test('an invalid STUN address, and a TURN address without a secret, are rejected', () => {
  expect(() => checkIceOptions({ ...NO_ICE, turn: ['turn:b.example'] })).toThrow(/--turn-secret/);
  expect(() => checkIceOptions({ ...NO_ICE, stun: ['https://a.example'] })).toThrow(/not a STUN address/);
});

test('TURN passwords are renewed after half of their lifetime, and STUN servers need no renewal', () => {
  const ice = { ...NO_ICE, turn: ['turn:b.example'], turnSecret: 'north' };
  const [server] = iceServersFor('Ada', ice, 0);
  expect(renewIceAfterMs(ice)).toBe((Number(server?.username?.split(':')[0]) * 1000) / 2);
  expect(renewIceAfterMs({ ...NO_ICE, stun: ['stun:a.example'] })).toBeNull();
});

test('--relay-only requires a TURN server', () => {
  expect(() => checkIceOptions({ ...NO_ICE, relayOnly: true })).toThrow(/--relay-only needs a TURN server/);
});
