import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { startSignaling } from '../../signaling/index.ts';
import { testServers, UPGRADE } from './helpers.ts';

const { start, pair } = testServers();

describe('the server', () => {
  test('informs members before it closes, and does not end their run', async () => {
    const { server, ada, bo } = await pair();
    await server.close();
    for (const one of [ada, bo]) {
      expect((await one.next('refused')).code).toBe('server-closing');
      expect(await one.closed).toBe(1012);
      await expect(one.next('ended')).rejects.toThrow('closed before');
    }
    await server.close();
  });

  test('closes even if a client never answers', async () => {
    const server = await start({ limits: { closeGraceMs: 10 } });
    const socket = connect(server.port, '127.0.0.1');
    socket.write(UPGRADE);
    await once(socket, 'data');
    const stray = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    stray.write('GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    await once(stray, 'data');
    await expect(server.close()).resolves.toBeUndefined();
    socket.destroy();
    stray.destroy();
  });

  test('explains what to do if its port is in use', async () => {
    const { port } = await start();
    await expect(startSignaling({ port })).rejects.toThrow(/Port \d+ on 127.0.0.1 is in use\. .*--port/);
    await expect(startSignaling({ host: '203.0.113.1' })).rejects.toThrow(/does not have the address 203.0.113.1/);
  });
});
