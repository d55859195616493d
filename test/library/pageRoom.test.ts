import { describe, expect, test } from 'vitest';
import { startSignaling } from '../../signaling/index.ts';
import { atPage } from '../../src/library/pageRoom.ts';
import { checkServer, locateRoom } from '../../src/library/room.ts';
import { UsageError } from '../../src/util/errors.ts';

/** A page at `https://host` with a fragment. Adds the codes that are written to `written`. */
function pageWith(hash: string, written: string[] = []) {
  return { address: { origin: 'https://host', hash }, writeRoom: (code: string) => void written.push(code) };
}

describe('options without a server', () => {
  test("take the page's server, and the room in its address", () => {
    const options = { worldSize: 4 };
    expect(atPage(options, pageWith('#K7F3QX'))).toMatchObject({
      server: 'https://host',
      room: 'K7F3QX',
      worldSize: 4,
    });
    expect(atPage(options, pageWith(''))).not.toHaveProperty('room');
    // An anchor of the page is not a room.
    expect(atPage(options, pageWith('#header'))).not.toHaveProperty('room');
  });

  test('keep a given server and room', () => {
    const options = { server: 'https://other', room: 'abc-def' };
    expect(atPage(options, pageWith('#K7F3QX'))).toMatchObject(options);
  });

  test('write the code of a room that was opened into the address, and no other', () => {
    const written: string[] = [];
    const told: string[] = [];
    const options = { worldSize: 4, onroom: (code: string) => void told.push(code) };
    atPage(options, pageWith('', written)).onroom?.('K7F3QX');
    expect([written, told]).toEqual([['K7F3QX'], ['K7F3QX']]);
    atPage(options, pageWith('#ABCDEF', written)).onroom?.('ABCDEF');
    expect([written, told]).toEqual([['K7F3QX'], ['K7F3QX', 'ABCDEF']]);
  });

  test('are rejected in a program without a page', () => {
    expect(() => atPage({ worldSize: 2 }, { address: null, writeRoom: () => {} })).toThrow(UsageError);
  });
});

describe('options with a server', () => {
  const options = { server: 'https://other', worldSize: 4 };

  test("take the room in the page's address", () => {
    expect(atPage(options, pageWith('#K7F3QX'))).toMatchObject({ server: 'https://other', room: 'K7F3QX' });
  });

  test.each([
    ['', ['K7F3QX']],
    ['#/train', []],
  ])("write the code of an opened room into an address with the fragment '%s': %j", (hash, expected) => {
    const written: string[] = [];
    atPage(options, pageWith(hash, written)).onroom?.('K7F3QX');
    expect(written).toEqual(expected);
  });

  test.each(['localhost:8080', '', '192.168.1.5', 'file:///page.html', '/signal'])(
    'are rejected if the server is "%s", and the error has an example',
    (server) => {
      expect(() => atPage({ server, worldSize: 4 }, pageWith(''))).toThrow(
        `"${server}" is not the address of a server. Pass one such as http://localhost:8080.`,
      );
    },
  );

  test('open a room in a program without a page', async () => {
    expect(await locateRoom(options)).toMatchObject({ server: 'https://other', worldSize: 4 });
    expect(await locateRoom(options)).not.toHaveProperty('room');
  });
});

const answering = (status: number) => (): Promise<Response> => Promise.resolve(new Response('<html>', { status }));

describe("a page's web server", () => {
  test('that answers with a page is no signaling server, and the error says what to do', async () => {
    await expect(checkServer('http://localhost:5173', answering(200))).rejects.toThrow(
      /http:\/\/localhost:5173, is no signaling server, .* Start one by `npx peergrad-cli serve`, and pass its address as server/,
    );
  });

  test('that is a signaling server, forwards to one, or cannot be reached now, is tried', async () => {
    await expect(checkServer('http://localhost:8080', answering(426))).resolves.toBeUndefined();
    await expect(checkServer('http://localhost:8080', answering(404))).resolves.toBeUndefined();
    await expect(checkServer('http://localhost:8080', () => Promise.reject(new TypeError()))).resolves.toBeUndefined();
  });

  test.each([500, 502, 504])('that forwards to a server that does not run answers %i', async (status) => {
    await expect(checkServer('http://localhost:5173', answering(status))).rejects.toThrow(
      /to which http:\/\/localhost:5173 forwards \/signal does not answer \(status 50\d\)\. Start it by `npx peergrad-cli serve`/,
    );
  });

  test('answers without an error that browsers log if it is one', async () => {
    const server = await startSignaling({ port: 0, logLevel: 'silent' });
    await expect(checkServer(server.url)).resolves.toBeUndefined();
    expect((await fetch(new URL('/signal', server.url), { method: 'HEAD' })).status).toBe(204);
    expect((await fetch(new URL('/signal', server.url))).status).toBe(426);
    await server.close();
  });
});
