import { describe, expect, test } from 'vitest';
import { atPage } from '../../src/library/pageRoom.ts';
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
