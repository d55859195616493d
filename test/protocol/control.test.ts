import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ClientMessage, parseControlMessage, PROTOCOL_VERSION, ServerMessage } from '../../src/protocol/control.ts';
import { DEFAULT_JOB, parseJob } from '../../src/spec/job.ts';
import { formatRoomCode, parseRoomCode, ROOM_CODE_ALPHABET, roomCodeFromText } from '../../src/protocol/roomCode.ts';
import { ProtocolError, UsageError } from '../../src/util/errors.ts';

describe('parseControlMessage', () => {
  test('accepts all messages of the protocol', () => {
    const create = {
      type: 'create',
      version: PROTOCOL_VERSION,
      name: 'Ada',
      job: DEFAULT_JOB,
      startAt: 4,
      nodes: { min: 2, max: 8 },
    };
    expect(parseControlMessage(ClientMessage, JSON.stringify(create))).toEqual(create);
  });

  test.each([
    ['text that is not JSON', 'hello', /was not JSON/],
    ['an unknown type', '{"type":"nonsense"}', /type/],
    ['another version', '{"type":"join","version":1,"room":"K7F3QX","name":"a"}', /version/],
    [
      'a room code with an invalid character',
      `{"type":"join","version":${PROTOCOL_VERSION},"room":"K7F30X","name":"a"}`,
      /room/,
    ],
    [
      'a smallest world size above the largest',
      JSON.stringify({
        type: 'create',
        version: PROTOCOL_VERSION,
        name: 'a',
        job: DEFAULT_JOB,
        startAt: null,
        nodes: { min: 3, max: 2 },
      }),
      /nodes: min must not be above max/,
    ],
    [
      'a short token',
      `{"type":"reconnect","version":${PROTOCOL_VERSION},"room":"K7F3QX","name":"a","token":"x"}`,
      /member|token/,
    ],
    ['an unknown field', '{"type":"heartbeat","admin":true}', /admin/],
    [
      'a rank above the limit',
      `{"type":"join","version":${PROTOCOL_VERSION},"room":"K7F3QX","name":"a","rank":256}`,
      /rank/,
    ],
    [
      'a rank that is not a number',
      `{"type":"join","version":${PROTOCOL_VERSION},"room":"K7F3QX","name":"a","rank":null}`,
      /rank/,
    ],
    [
      'a short browser id',
      `{"type":"join","version":${PROTOCOL_VERSION},"room":"K7F3QX","name":"a","browser":"1"}`,
      /browser/,
    ],
    ['a generation that does not fit into a frame', '{"type":"linked","generation":4294967296}', /generation/],
    [
      'a run number above the limit',
      '{"type":"ready","device":{"backend":"cpu","adapter":""},"stateOfRun":4294967296}',
      /stateOfRun/,
    ],
    ['a name of spaces', `{"type":"join","version":${PROTOCOL_VERSION},"room":"K7F3QX","name":"   "}`, /name/],
  ])('rejects, with the name of the field, %s', (_name, data, message) => {
    expect(() => parseControlMessage(ClientMessage, data)).toThrow(message);
  });

  test('rejects a ring that contains a member twice', () => {
    const one = { member: 'member-ada', name: 'Ada', device: null, browser: 0, rank: null };
    const prepare = {
      type: 'prepare',
      generation: 1,
      run: 1,
      members: [one],
      job: DEFAULT_JOB,
      relayed: [],
      separated: [],
      served: [],
    };
    parseControlMessage(ServerMessage, JSON.stringify(prepare));
    const twice = JSON.stringify({ ...prepare, members: [one, { ...one, name: 'Bo' }] });
    expect(() => parseControlMessage(ServerMessage, twice)).toThrow(/members: a member occurs twice/);
  });

  test.each(['renegotiate', 'transceiverRequest'])('rejects signals with the type %s of simple-peer', (type) => {
    const signal = { type: 'signal', generation: 1, to: 'member-id', attempt: 0, signal: { type, [type]: true } };
    expect(() => parseControlMessage(ClientMessage, JSON.stringify(signal))).toThrow(ProtocolError);
  });

  test('throws only ProtocolError, whatever the input is', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (data) => {
        for (const schema of [ClientMessage, ServerMessage]) {
          try {
            parseControlMessage(schema, data);
          } catch (error) {
            expect(error).toBeInstanceOf(ProtocolError);
          }
        }
      }),
    );
  });
});

describe('parseJob', () => {
  test('replaces missing fields by their defaults', () => {
    expect(parseJob({ seed: 7 })).toEqual({ ...DEFAULT_JOB, seed: 7 });
  });

  test.each([
    [{ job: 'chess' }, /job.*digits.*mnist/],
    [{ batchSize: 0 }, /batchSize/],
    [{ learningRate: Number.NaN }, /learningRate/],
    [{ epochs: 1.5 }, /epochs/],
    [{ speed: 'fast' }, /speed/],
    [{ job: 'mnist' }, /mnist "url"/],
    [{ job: 'table' }, /mnist "url", "files" or "shared"; images and table "url", "files", "shared" or "federated"/],
    [{ job: 'table', model: 'cnn', data: { kind: 'files' } }, /tables need the model mlp/],
    [{ side: 7 }, /side/],
    [{ channels: 2 }, /channels/],
    [{ task: 'clustering' }, /task/],
  ])('rejects, with the name of the field, %j', (fields, message) => {
    expect(() => parseJob(fields)).toThrow(message);
    expect(() => parseJob(fields)).toThrow(UsageError);
  });
});

describe('room codes', () => {
  test('are accepted in all forms in which people write them', () => {
    for (const typed of ['K7F3QX', 'k7f-3qx', ' K7F 3QX ']) expect(parseRoomCode(typed)).toBe('K7F3QX');
    expect(formatRoomCode('K7F3QX')).toBe('K7F-3QX');
  });

  test('are the same on every machine if they come from the same text', () => {
    expect([roomCodeFromText('none'), roomCodeFromText('class 4b'), roomCodeFromText('')]).toEqual([
      '57MYA5',
      'HZ2NE4',
      'PPUDER',
    ]);
    const codes = Array.from({ length: 1000 }, (_, i) => roomCodeFromText(`run ${i}`));
    expect(codes.map(parseRoomCode)).toEqual(codes);
    expect(new Set(codes).size).toBe(codes.length);
    for (let place = 0; place < codes[0]!.length; place++) {
      expect(new Set(codes.map((code) => code[place])).size).toBe(ROOM_CODE_ALPHABET.length);
    }
  });

  test('contain no characters that look alike', () => {
    for (const sign of '0O1IL') expect(ROOM_CODE_ALPHABET).not.toContain(sign);
    for (const typed of ['K7F3Q', 'K7F3QXX', 'K0F3QX', '']) expect(parseRoomCode(typed)).toBeNull();
  });
});
