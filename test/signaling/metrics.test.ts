import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import type { SignalingServer } from '../../signaling/index.ts';
import { Metrics } from '../../signaling/monitoring/metrics.ts';
import { RoomLog } from '../../signaling/monitoring/roomLog.ts';
import { enter, testServers, UPGRADE } from './helpers.ts';

const { onEnd, start, member } = testServers();

async function get(server: SignalingServer, path: string, headers: Record<string, string> = {}) {
  const response = await fetch(`${server.url}${path}`, { headers });
  return { status: response.status, text: await response.text() };
}

describe('/metrics', () => {
  test('counts rooms, connections, messages and refusals, without secrets', async () => {
    const server = await start();
    const room = server.createRoom({ job: DEFAULT_JOB, startAt: 2 });
    const [ada, bo] = [member(server), member(server)];
    await enter(ada, room, 'Ada');
    const { id: boId } = await enter(bo, room, 'Bo');
    const { generation } = await ada.next('prepare');
    await ada.send({ type: 'signal', generation, to: boId, attempt: 0, signal: { type: 'offer', sdp: 'v=0' } });
    await bo.next('signal');
    const stranger = member(server);
    await stranger.join('AAAAAA');
    await stranger.closed;
    await expect(member(server, { path: '/other' }).opened()).rejects.toThrow('404');

    const { status, text } = await get(server, '/metrics');
    expect(status).toBe(200);
    const lines = text.split('\n');
    expect(lines).toEqual(
      expect.arrayContaining([
        'peergrad_rooms 1',
        'peergrad_connections 2',
        'peergrad_members 2',
        'peergrad_signals_relayed_total 1',
        'peergrad_messages_total{type="join"} 3',
        'peergrad_messages_total{type="ready"} 2',
        'peergrad_refusals_total{code="no-room"} 1',
        'peergrad_upgrades_refused_total{status="404"} 1',
        'peergrad_message_handling_seconds_count 6',
      ]),
    );
    expect(text).toMatch(/^peergrad_relayed_bytes_total [1-9]/m);
    expect(text).toMatch(/^process_resident_memory_bytes \d/m);
    for (const secret of [room, boId, 'Ada', '127.0.0.1']) expect(text).not.toContain(secret);
  });

  test('is served to this machine, and to other machines only with the token', async () => {
    const server = await start({ trustProxy: true, metricsToken: 'a-long-token' });
    expect((await get(server, '/metrics')).status).toBe(200);
    const elsewhere = { 'x-forwarded-for': '127.0.0.1, 203.0.113.7' };
    expect((await get(server, '/metrics', elsewhere)).status).toBe(401);
    expect((await get(server, '/metrics', { ...elsewhere, authorization: 'Bearer guessed' })).status).toBe(401);
    expect((await get(server, '/metrics', { ...elsewhere, authorization: 'Bearer a-long-token' })).status).toBe(200);
  });

  test('is not served without a token to a request that a proxy on this machine forwards', async () => {
    const server = await start();
    expect((await get(server, '/metrics', { 'x-forwarded-for': '203.0.113.7' })).status).toBe(401);
    expect((await get(server, '/metrics', { authorization: 'Bearer null' })).status).toBe(200);
  });
});

test('logs contain a pseudonym instead of the room code', async () => {
  const lines: string[] = [];
  const metrics = new Metrics(() => ({ rooms: 0, connections: 0, members: 0, serverLinks: 0 }));
  const rooms = new RoomLog(pino({ level: 'info' }, { write: (line) => void lines.push(line) }), metrics);
  rooms.opened('K7F3QX');
  rooms.generationBegun('K7F3QX', 1, 4, 'start');
  rooms.forgotten('K7F3QX');
  const logged = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  expect(logged).toMatchObject([
    { msg: 'room opened' },
    { msg: 'generation begun', generation: 1, worldSize: 4, cause: 'start' },
    { msg: 'room forgotten' },
  ]);
  expect(new Set(logged.map(({ room }) => room))).toEqual(new Set([rooms.nameOf('K7F3QX')]));
  expect(lines.join()).not.toContain('K7F3QX');
  expect(await metrics.text()).toContain('peergrad_generations_total{cause="start"} 1');
});

test('a server that closes is alive but not ready, and refuses connections', async () => {
  const server = await start({ limits: { closeGraceMs: 500 } });
  expect(await get(server, '/readyz')).toEqual({ status: 200, text: '{"ready":true}' });
  // This client never answers the closing handshake, so the server waits for it.
  const stuck = connect(server.port, '127.0.0.1');
  onEnd(() => void stuck.destroy());
  stuck.write(UPGRADE);
  await once(stuck, 'data');
  const closing = server.close();
  const answers = ['/readyz', '/healthz'].map(async (path) => {
    // There is no keep-alive: fetch would keep its connection open, and the server would close it.
    const asked = request({ port: server.port, host: '127.0.0.1', path, agent: false }).end();
    const [response] = (await once(asked, 'response')) as [{ statusCode: number; resume: () => void }];
    response.resume();
    return response.statusCode;
  });
  expect(await Promise.all(answers)).toEqual([503, 200]);
  await expect(member(server).opened()).rejects.toThrow('503');
  await closing;
});

test('/origins.json lists the origins for other machines, and is served only to this machine', async () => {
  const server = await start({ host: '0.0.0.0', trustProxy: true });
  const origins = JSON.parse((await get(server, '/origins.json')).text) as string[];
  expect(origins).toEqual(server.urls.filter((url) => new URL(url).hostname !== 'localhost'));
  expect((await get(server, '/origins.json', { 'x-forwarded-for': '203.0.113.7' })).text).toBe('[]');
  for (const host of ['127.0.0.1', '::1']) {
    expect((await get(await start({ host }), '/origins.json')).text).toBe('[]');
  }
});
