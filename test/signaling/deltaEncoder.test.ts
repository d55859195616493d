/** What a connection receives of a room: changes that lead to the room itself, and few bytes. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseControlMessage, type RoomMessage, type ServerMessage } from '../../src/protocol/control.ts';
import { DeltaDecoder } from '../../src/protocol/deltaDecoder.ts';
import { SentMessage, type RoomDelta } from '../../src/protocol/deltas.ts';
import { DEFAULT_JOB } from '../../src/spec/job.ts';
import { DeltaEncoder } from '../../signaling/deltaEncoder.ts';
import { createRoom, step, type RoomEffect, type RoomEvent, type RoomState } from '../../signaling/room/index.ts';
import { DEVICE, join, ready } from './room/play.ts';
import { helpful, script } from './room/randomEvents.ts';

/** Both ends of a connection. */
class Wire {
  #encoder = new DeltaEncoder();
  #decoder = new DeltaDecoder();
  readonly texts: string[] = [];

  /** Returns the message as the other end decodes it. */
  pass(message: ServerMessage): ServerMessage {
    const text = this.#encoder.encode(message);
    this.texts.push(text);
    return this.#decoder.decode(parseControlMessage(SentMessage, text));
  }

  reopen(): void {
    this.#encoder = new DeltaEncoder();
    this.#decoder = new DeltaDecoder();
  }
}

const isList = ({ type }: ServerMessage): boolean => type === 'room' || type === 'prepare';

test('a member decodes rooms and generations of any history, even if it misses rooms or changes its connection', () => {
  let deltas = 0;
  let prepared = 0;
  fc.assert(
    fc.property(script, fc.constantFrom(null, 1, 2, 3), (events, startAt) => {
      let state = createRoom({
        job: DEFAULT_JOB,
        startAt,
        nodes: startAt === 1 ? { min: 1, max: 4 } : null,
        capacity: 4,
      });
      const wires = new Map<string, Wire>();
      for (const [wild, pick] of events) {
        const { state: after, effects } = step(state, pick < 15 ? wild : helpful(state, pick / 100));
        state = after;
        for (const [turn, effect] of effects.entries()) {
          if (effect.type !== 'send' || !isList(effect.message)) continue;
          // A room of another server process arrives as other objects with the same data.
          const relayed = structuredClone(effect.message);
          for (const [place, member] of effect.to.entries()) {
            const wire = wires.get(member) ?? new Wire();
            wires.set(member, wire);
            const chance = (pick + turn + place) % 7;
            // A newer room may replace one that waits. A connection may be lost.
            if (chance === 0 && effect.message.type === 'room') continue;
            if (chance === 1) wire.reopen();
            const message = place % 2 === 0 ? effect.message : relayed;
            expect(wire.pass(message)).toEqual(message);
            if (message.type === 'prepare') prepared++;
          }
        }
      }
      for (const { texts } of wires.values()) {
        deltas += texts.filter((text) => text.startsWith('{"type":"room-delta"')).length;
      }
    }),
    { numRuns: 80 },
  );
  expect(deltas).toBeGreaterThan(500);
  expect(prepared).toBeGreaterThan(50);
});

/** A room whose members all have a connection. */
class Crowd {
  state: RoomState;
  readonly #wires = new Map<string, Wire>();

  constructor(size: number) {
    this.state = createRoom({ job: DEFAULT_JOB, startAt: null, nodes: { min: 1, max: size }, capacity: size });
    for (let i = 0; i < size; i++) this.do(join(`member-${i}`));
  }

  /** Returns the bytes of rooms and generations that an event sends to all members. */
  do(event: RoomEvent): number {
    const { state, effects } = step(this.state, event);
    this.state = state;
    let bytes = 0;
    for (const effect of effects) {
      if (effect.type !== 'send' || !isList(effect.message)) continue;
      for (const member of effect.to) {
        const wire = this.#wires.get(member) ?? new Wire();
        this.#wires.set(member, wire);
        wire.pass(effect.message);
        bytes += Buffer.byteLength(wire.texts.at(-1)!);
      }
    }
    return bytes;
  }
}

describe('the bytes to all members grow in proportion to the number of members, not to its square,', () => {
  const [few, many] = [15, 60].map((size) => new Crowd(size)) as [Crowd, Crowd];
  const expectGrowth = (cost: (crowd: Crowd) => number): void => {
    const [ofFew, ofMany] = [cost(few), cost(many)];
    // Four times as many members; numbers have a few more digits.
    expect(ofMany).toBeLessThan(4.6 * ofFew);
    expect(ofMany).toBeGreaterThan(0);
  };
  const leave = (crowd: Crowd): number => crowd.do({ type: 'left', member: 'member-9', reason: 'left' });

  test('when a member leaves and joins', () => {
    expectGrowth(leave);
    expectGrowth((crowd) => crowd.do(join('member-9')));
  });

  test('when all members become ready, and then unready after a change of the job', () => {
    const host = 'member-0';
    for (const crowd of [few, many]) {
      for (const { member } of crowd.state.members) crowd.do(ready(member));
    }
    const files = { ...DEFAULT_JOB, job: 'mnist', data: { kind: 'files' } } as const;
    expectGrowth((crowd) => crowd.do({ type: 'configure', member: host, job: files }));
    for (const crowd of [few, many]) {
      expect(crowd.state.members.every(({ device }) => device === null)).toBe(true);
      for (const { member } of crowd.state.members) crowd.do(ready(member));
    }
  });

  test('when a run begins, and a member leaves it', () => {
    expectGrowth((crowd) => crowd.do({ type: 'start', member: 'member-0' }));
    expectGrowth(leave);
  });
});

/** Returns the message about a room that so many members have joined. */
function room(members: number): RoomMessage {
  let state = createRoom({ job: DEFAULT_JOB, startAt: null, nodes: null });
  let effects: readonly RoomEffect[] = [];
  for (let i = 0; i < members; i++) ({ state, effects } = step(state, join(`member-${i}`)));
  const messages = effects.flatMap((effect) => (effect.type === 'send' ? [effect.message] : []));
  return messages.find(({ type }) => type === 'room') as RoomMessage;
}

function sent(text: string): SentMessage {
  return parseControlMessage(SentMessage, text);
}

describe('a delta', () => {
  test('contains a member that became ready, and only the former positions of members that moved or did not change', () => {
    const before = room(5);
    const encoder = new DeltaEncoder();
    encoder.encode(before);
    const [first, second, ...others] = before.members;
    const moved: RoomMessage = { ...before, members: [second!, first!, ...others] };
    expect(sent(encoder.encode(moved))).toMatchObject({
      members: [
        [1, 1],
        [0, 1],
        [2, 3],
      ],
    });
    const one = { ...first!, device: DEVICE };
    expect(sent(encoder.encode({ ...moved, members: [second!, one, ...others] }))).toMatchObject({
      members: [[0, 1], one, [2, 3]],
    });
  });

  test('contains only what has changed', () => {
    const before = room(3);
    const encoder = new DeltaEncoder();
    const { version } = sent(encoder.encode(before)) as { version: number };
    const again = sent(encoder.encode({ ...before, waitingFor: 2 })) as RoomDelta;
    expect(again).toEqual({ type: 'room-delta', base: version, version: again.version, waitingFor: 2 });
  });

  test('is not used if the list of removed members disappears, which a delta cannot express', () => {
    const before = room(2);
    const wire = new Wire();
    wire.pass({ ...before, removed: { members: ['member-7'], seal: 'x'.repeat(20) } });
    expect(wire.pass(before)).toEqual(before);
  });

  test('is rejected if it is based on a version other than that of the receiver', () => {
    const before = room(3);
    const [encoder, decoder] = [new DeltaEncoder(), new DeltaDecoder()];
    decoder.decode(sent(encoder.encode(before)));
    encoder.encode({ ...before, waitingFor: 1 });
    const late = sent(encoder.encode({ ...before, waitingFor: 2 }));
    expect(() => decoder.decode(late)).toThrow(/changes to version \d+ of the room, but this tab has version \d+/);
    const { version } = sent(new DeltaEncoder().encode(before)) as { version: number };
    expect(() => new DeltaDecoder().decode({ ...(late as RoomDelta), base: version })).toThrow(
      /this tab has version 0/,
    );
    expect(() => new DeltaDecoder().decode({ ...(late as RoomDelta), base: 0 })).toThrow(/before the room itself/);
  });

  test('is rejected if it refers to members that the receiver does not have', () => {
    const decoder = new DeltaDecoder();
    const whole = sent(new DeltaEncoder().encode(room(3))) as { version: number };
    decoder.decode(whole as SentMessage);
    const base = whole.version;
    const version = base + 1;
    expect(() => decoder.decode({ type: 'room-delta', base, version, members: [[1, 3]] })).toThrow(
      /element 4 of a list of 3/,
    );
    expect(() => decoder.decode({ type: 'room-delta', base, version, unready: [[3, 1]] })).toThrow(
      /element 4 of a list of 3/,
    );
    const rest = { generation: 1, run: 1, relayed: [], separated: [], served: [] };
    const prepare: SentMessage = { type: 'prepare', ...rest, base, members: [] };
    expect(() =>
      decoder.decode({
        ...prepare,
        members: [
          [0, 1],
          [0, 1],
        ],
      }),
    ).toThrow(/a member occurs twice/);
    expect(() => new DeltaDecoder().decode({ ...prepare, base: 0, members: [] })).toThrow(/without a job/);
  });
});
