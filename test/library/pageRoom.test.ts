import { describe, expect, test } from 'vitest';
import { startSignaling } from '../../signaling/index.ts';
import { completeFromPageAddress } from '../../src/library/pageRoom.ts';
import { checkSignalingServer, locateRoom } from '../../src/library/room.ts';
import { UsageError } from '../../src/util/errors.ts';

/** A page at `https://host` with a fragment. Adds the codes that are written to `written`. */
function pageWith(hash: string, written: string[] = []) {
  return { address: { origin: 'https://host', hash }, writeRoom: (code: string) => void written.push(code) };
}

describe('options without a server', () => {
  test("use the page's server, and the room in the page's URL", () => {
    const options = { worldSize: 4 };
    expect(completeFromPageAddress(options, pageWith('#K7F3QX'))).toMatchObject({
      server: 'https://host',
      room: 'K7F3QX',
      worldSize: 4,
    });
    expect(completeFromPageAddress(options, pageWith(''))).not.toHaveProperty('room');
    // An anchor of the page is not a room.
    expect(completeFromPageAddress(options, pageWith('#header'))).not.toHaveProperty('room');
  });

  test('keep the given server and room', () => {
    const options = { server: 'https://other', room: 'abc-def' };
    expect(completeFromPageAddress(options, pageWith('#K7F3QX'))).toMatchObject(options);
  });

  test('write the code of a newly opened room into the URL, and no other code', () => {
    const written: string[] = [];
    const told: string[] = [];
    const options = { worldSize: 4, onroom: (code: string) => void told.push(code) };
    completeFromPageAddress(options, pageWith('', written)).onroom?.('K7F3QX');
    expect([written, told]).toEqual([['K7F3QX'], ['K7F3QX']]);
    completeFromPageAddress(options, pageWith('#ABCDEF', written)).onroom?.('ABCDEF');
    expect([written, told]).toEqual([['K7F3QX'], ['K7F3QX', 'ABCDEF']]);
  });

  test('are rejected in a program without a page', () => {
    expect(() => completeFromPageAddress({ worldSize: 2 }, { address: null, writeRoom: () => {} })).toThrow(UsageError);
  });
});

describe('options with a server', () => {
  const options = { server: 'https://other', worldSize: 4 };

  test("use the room in the page's URL", () => {
    expect(completeFromPageAddress(options, pageWith('#K7F3QX'))).toMatchObject({
      server: 'https://other',
      room: 'K7F3QX',
    });
  });

  test.each([
    ['', ['K7F3QX']],
    ['#/train', []],
  ])("write the code of a newly opened room into a URL with the fragment '%s': %j", (hash, expected) => {
    const written: string[] = [];
    completeFromPageAddress(options, pageWith(hash, written)).onroom?.('K7F3QX');
    expect(written).toEqual(expected);
  });

  test.each(['localhost:8080', '', '192.168.1.5', 'file:///page.html', '/signal'])(
    'are rejected if the server is "%s", and the error has an example',
    (server) => {
      expect(() => completeFromPageAddress({ server, worldSize: 4 }, pageWith(''))).toThrow(
        `"${server}" is not the address of a server. Pass one such as http://localhost:8080.`,
      );
    },
  );

  test('open a new room in a program without a page', async () => {
    expect(await locateRoom(options)).toMatchObject({ server: 'https://other', worldSize: 4 });
    expect(await locateRoom(options)).not.toHaveProperty('room');
  });
});

const answering = (status: number) => (): Promise<Response> => Promise.resolve(new Response('<html>', { status }));

describe("a page's web server", () => {
  test('is rejected with advice if it answers with a page, because it is then no signaling server', async () => {
    await expect(checkSignalingServer('http://localhost:5173', answering(200))).rejects.toThrow(
      /http:\/\/localhost:5173, is no signaling server, and does not forward \/signal and \/link to one\. Start one by `npx peergrad-cli serve`, and pass its address as server/,
    );
  });

  test('is accepted if it is a signaling server, forwards to one, or cannot be reached now', async () => {
    await expect(checkSignalingServer('http://localhost:8080', answering(426))).resolves.toBeUndefined();
    await expect(checkSignalingServer('http://localhost:8080', answering(404))).resolves.toBeUndefined();
    await expect(
      checkSignalingServer('http://localhost:8080', () => Promise.reject(new TypeError())),
    ).resolves.toBeUndefined();
  });

  test.each([500, 502, 504])(
    'is rejected if the server to which it forwards does not run: status %i',
    async (status) => {
      await expect(checkSignalingServer('http://localhost:5173', answering(status))).rejects.toThrow(
        /to which http:\/\/localhost:5173 forwards \/signal does not answer \(status 50\d\)\. Start it by `npx peergrad-cli serve`/,
      );
    },
  );

  test("is accepted without an error in the browser's log if it is a signaling server", async () => {
    const server = await startSignaling({ port: 0, logLevel: 'silent' });
    await expect(checkSignalingServer(server.url)).resolves.toBeUndefined();
    expect((await fetch(new URL('/signal', server.url), { method: 'HEAD' })).status).toBe(204);
    expect((await fetch(new URL('/signal', server.url))).status).toBe(426);
    await server.close();
  });
});
