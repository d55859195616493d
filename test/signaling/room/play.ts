/** Passes events to a room's state machine, without a server. */
import { expect } from 'vitest';
import type { ReportedDevice } from '../../../src/protocol/room.ts';
import type { ServerMessage } from '../../../src/protocol/control.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import {
  createRoom,
  step,
  type RoomEffect,
  type RoomEvent,
  type RoomOptions,
  type RoomState,
} from '../../../signaling/room/index.ts';

export const DEVICE: ReportedDevice = { backend: 'webgpu', adapter: 'test' };
export const NAMES = ['Ada', 'Bo', 'Cy', 'Di', 'Ed'];

type Of<Type extends RoomEvent['type']> = Extract<RoomEvent, { type: Type }>;

/** Returns the event that a member joins. Its name is its id. */
export function join(member: string, request: Partial<Of<'join'>> = {}): RoomEvent {
  return { type: 'join', member, name: member, holdsKey: false, ...request };
}

export function ready(member: string, stateOfRun: number | null = null): RoomEvent {
  return { type: 'ready', member, device: DEVICE, stateOfRun };
}

/** A room for tests: its state, and the effects of its latest event. */
export class Play {
  state: RoomState;
  effects: readonly RoomEffect[] = [];

  constructor(options: Partial<RoomOptions> = {}) {
    this.state = createRoom({ job: DEFAULT_JOB, startAt: null, nodes: null, capacity: 4, ...options });
  }

  do(...events: RoomEvent[]): this {
    for (const event of events) ({ state: this.state, effects: this.effects } = step(this.state, event));
    return this;
  }

  /** Lets the first `n` members join and report that they are ready, unless they have already. */
  enter(n: number): this {
    for (const name of NAMES.slice(0, n)) {
      const known = this.state.members.find(({ member }) => member === name);
      if (known === undefined) this.do(join(name));
      if ((known?.device ?? null) === null) this.do(ready(name));
    }
    return this;
  }

  start(): this {
    return this.do({ type: 'start', member: 'Ada' });
  }

  linkAll(): this {
    const { ring, generation } = this.state;
    for (const { member } of ring) this.do({ type: 'linked', member, generation });
    return this;
  }

  /** Lets the time pass in which the room waits for further reports of a failure. */
  gather(): this {
    const { complaints, generation } = this.state;
    return complaints.size > 0 ? this.do({ type: 'gathered', generation }) : this;
  }

  report(type: 'synced' | 'finished', hashes: string[], atStep = 0): this {
    const { ring, generation } = this.state;
    ring.forEach(({ member }, i) =>
      this.do({ type, member, generation, step: atStep, stateHash: hashes[i] ?? hashes[0]! }),
    );
    return this;
  }

  /** Makes the generation go from LINKING to RUNNING. */
  train(atStep = 0): this {
    return this.linkAll().report('synced', ['same'], atStep);
  }

  /** Returns a room whose `n` ready members train. */
  static running(n: number, options: Partial<RoomOptions> = {}): Play {
    return new Play(options).enter(n).start().train();
  }

  /** Returns the members of the ring in the order of their ranks. */
  get ring(): string[] {
    return this.state.ring.map((m) => m.member);
  }

  /** Returns the messages that the latest event sent to a member. */
  sentTo(member: string): ServerMessage[] {
    return this.effects.flatMap((effect) =>
      effect.type === 'send' && effect.to.includes(member) ? [effect.message] : [],
    );
  }

  /** Returns the message of this type that the latest event sent to a member. */
  received<Type extends ServerMessage['type']>(member: string, type: Type): Extract<ServerMessage, { type: Type }> {
    const message = this.sentTo(member).find((m) => m.type === type);
    expect(message, `a "${type}" to ${member}`).toBeDefined();
    return message as Extract<ServerMessage, { type: Type }>;
  }

  /** Returns the timer that the latest event set. */
  timer(key: string): Extract<RoomEffect, { type: 'setTimer' }> {
    const timer = this.effects.find((effect) => effect.type === 'setTimer' && effect.key === key);
    expect(timer, `a timer "${key}"`).toBeDefined();
    return timer as Extract<RoomEffect, { type: 'setTimer' }>;
  }
}
