import { expect, test } from 'vitest';
import { socketUrl } from '../../src/util/socketUrl.ts';

test.each([
  ['https://host:8443', 'wss://host:8443/link'],
  ['http://192.0.2.1:5173/page?a=1#new', 'ws://192.0.2.1:5173/link'],
])('the WebSocket of a server at %s is at %s', (server, url) => {
  expect(socketUrl('/link', server).href).toBe(url);
});
