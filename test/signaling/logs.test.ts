/**
 * The server's log contains events of members at every level, but no messages, names or secrets.
 */
import { afterEach, expect, test } from 'vitest';
import { LoadGenerator } from '../../bench/signaling/child.ts';
import type { ServerOptions, ServerReply } from '../../bench/signaling/serverProcess.ts';
import { enter, TestMember } from './helpers.ts';

let child: LoadGenerator | null = null;
afterEach(() => child?.kill());

test('the log of a whole run at level trace contains no secrets', async () => {
  const ice = { stun: [], turn: ['turn:relay.example:3478'], turnSecret: 'north', relayOnly: false };
  const order: ServerOptions = { rooms: 1, startAt: 2, logLevel: 'trace', ice };
  child = new LoadGenerator('./serverProcess.ts', JSON.stringify(order));
  const server = await child.next<ServerReply>();
  const [code] = server.rooms;
  const both = [new TestMember(server), new TestMember(server)] as const;
  const [ada, bo] = both;
  const received: string[] = [];
  for (const one of both) one.socket.on('message', (data: Buffer) => received.push(data.toString()));

  const ids = [await enter(ada, code!, 'Ada Lovelace'), await enter(bo, code!, 'Bo Diddley')];
  const { generation } = await ada.next('prepare');
  const sdp = 'v=0 o=- 4611731400430051336 2 IN IP4 192.168.1.77';
  const candidate = 'candidate:842163049 1 udp 1677729535 192.168.1.77 46154 typ host';
  const signals = [{ type: 'offer', sdp } as const, { type: 'candidate', candidate: { candidate } } as const];
  for (const signal of signals) await ada.send({ type: 'signal', generation, to: ids[1]!.id, attempt: 0, signal });
  await bo.next('signal', ({ signal }) => signal.type === 'candidate');
  for (const one of both) await one.send({ type: 'linked', generation });
  for (const one of both) await one.next('sync');
  for (const one of both) await one.send({ type: 'synced', generation, step: 0, stateHash: 'x' });
  for (const one of both) await one.next('go');
  for (const one of both) await one.send({ type: 'finished', generation, step: 9, stateHash: 'y' });
  for (const one of both) await one.next('ended');
  // A refusal quotes the refused message, but only to its sender.
  const wrong = new TestMember(server);
  await wrong.join('AAAAAA', 'Cy Twombly');
  await wrong.closed;
  await ada.raw(`{"type":"signal","sdp":"${sdp}"}`);
  await ada.closed;
  await bo.send({ type: 'leave' });
  await bo.closed;
  await child.ask({});

  const admitted = received
    .map((text) => JSON.parse(text) as Record<string, unknown>)
    .filter((m) => m['type'] === 'admitted');
  const secrets = admitted.flatMap(({ token, bootId, iceServers }) => {
    const [{ username, credential }] = iceServers as [{ username: string; credential: string }];
    return [String(token), String(bootId), username, credential];
  });
  expect(secrets).toHaveLength(8);
  for (const message of ['admitted', 'refused', 'closed']) expect(child.stderr).toContain(`"msg":"${message}"`);
  for (const secret of [
    ...secrets,
    code!,
    'AAAAAA',
    'Lovelace',
    'Diddley',
    'Twombly',
    'north',
    'relay.example',
    '192.168',
    '127.0.0.1',
  ]) {
    expect(child.stderr).not.toContain(secret);
  }
  expect(child.stderr).not.toMatch(/candidate|sdp|credential|address|v=0|typ host/i);
});
