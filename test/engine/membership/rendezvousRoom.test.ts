/**
 * Members in a room of the server's own code: which generations they enter, and how the generations
 * end.
 */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ProcessGroup } from '../../../src/collectives/processGroup.ts';
import type { RankStateReport } from '../../../src/engine/membership/membership.ts';
import type { Generation } from '../../../src/engine/membership/generation.ts';
import type { RendezvousOptions } from '../../../src/engine/membership/rendezvousOptions.ts';
import { Rendezvous } from '../../../src/engine/membership/rendezvous.ts';
import { PROTOCOL_VERSION } from '../../../src/protocol/control.ts';
import { type RosterEntry } from '../../../src/protocol/room.ts';
import type { RankStatus } from '../../../src/protocol/events.ts';
import { DEFAULT_JOB } from '../../../src/spec/job.ts';
import { createDeferred, type Deferred } from '../../../src/util/deferred.ts';
import { asError, DataError, PeergradError } from '../../../src/util/errors.ts';
import { SignalingWorld, type Port } from '../signalingWorld.ts';
import { ThreadActivity } from '../../../src/util/activity.ts';

const ELASTIC = { min: 1, max: 8 };
const START: RankStateReport = { step: 0, stateHash: 'start' };
const END: RankStateReport = { step: 9, stateHash: 'end' };

/** A member of a room, whose training ends when the test decides. */
class Member {
  readonly name: string;
  readonly port: Port;
  readonly rendezvous: Rendezvous;
  /** The generations that this member has entered, and the generations in which it has trained. */
  readonly entered: Generation[] = [];
  readonly trained: Generation[] = [];
  readonly statuses: RankStatus[] = [];
  readonly ended: { outcome: string; message: string }[] = [];
  readonly refused: Error[] = [];
  readonly fatal: Error[] = [];
  member = '';
  room = '';
  roster: readonly RosterEntry[] = [];
  onroster: (members: readonly RosterEntry[]) => void = () => {};
  /** How often the server has admitted this member. */
  admissions = 0;
  /** The state with which this member enters a generation. */
  state = START;
  /** The scope of this member's errors. */
  scope: 'rank' | 'generation' | 'run' = 'run';
  #training: Deferred<RankStateReport> = createDeferred();

  constructor(name: string, world: SignalingWorld, hello: RendezvousOptions['hello']) {
    this.name = name;
    this.port = world.plug();
    this.rendezvous = new Rendezvous({
      server: 'http://server',
      hello,
      connectPeer: this.port.connectPeer,
      connectTab: () => {
        throw new Error('Tabs of this world are of different browsers.');
      },
      clock: world.clock,
      activity: new ThreadActivity(world.clock),
      today: () => world.clock.now(),
      random: () => 0.5,
      openSocket: this.port.openSocket,
      browserId: () => Promise.resolve(`browser-of-${name}`.padEnd(16, '-')),
      onadmitted: ({ member, room }) => {
        [this.member, this.room] = [member, room];
        this.admissions++;
        this.ready();
      },
      onroom: ({ members }) => {
        this.roster = members;
        this.onroster(members);
      },
      onstate: (status) => this.statuses.push(status),
      enter: (generation) => {
        this.entered.push(generation);
        return Promise.resolve(this.state);
      },
      train: (generation) => {
        this.trained.push(generation);
        this.#training = createDeferred();
        const { promise, reject } = this.#training;
        generation.signal.addEventListener('abort', () => reject(generation.signal.reason));
        return promise;
      },
      scopeOf: () => this.scope,
      onended: ({ outcome, message }) => this.ended.push({ outcome, message }),
      onrefused: (error) => this.refused.push(error),
      onfatal: (error) => this.fatal.push(error),
    });
    void this.rendezvous.start();
  }

  ready(): void {
    this.rendezvous.announce({ device: { backend: 'cpu', adapter: 'test' }, stateOfRun: null, isBehind: false });
  }

  /** The generation of the current or latest training. */
  get generation(): Generation {
    return this.trained.at(-1)!;
  }

  get status(): RankStatus {
    return this.statuses.at(-1)!;
  }

  finish(state = END): void {
    this.#training.resolve(state);
  }

  fail(error: Error): void {
    this.#training.reject(error);
  }
}

let world: SignalingWorld;
let members: Member[];
beforeEach(() => {
  world = new SignalingWorld();
  members = [];
});
afterEach(() => {
  for (const { rendezvous } of members) rendezvous.leave();
});

type Unnamed<Hello> = Hello extends unknown ? Omit<Hello, 'name' | 'version'> : never;

function enter(name: string, hello: Unnamed<RendezvousOptions['hello']>): Member {
  const member = new Member(name, world, { ...hello, name, version: PROTOCOL_VERSION });
  members.push(member);
  return member;
}

/**
 * Makes members train in one generation. The first member has opened the room and started the run.
 */
async function training(
  names: readonly string[],
  nodes: { min: number; max: number } | null = ELASTIC,
): Promise<Member[]> {
  const [first, ...others] = names;
  const host = enter(first!, { type: 'create', job: DEFAULT_JOB, startAt: names.length, nodes });
  await world.until('the room is open', () => host.room !== '');
  for (const name of others) enter(name, { type: 'join', room: host.room });
  await trainTogether(members, 1);
  return members;
}

/** Resolves when the members in `some`, and no others, train in one generation. */
async function trainTogether(some: readonly Member[], generations: number): Promise<void> {
  const isOn = ({ trained, generation }: Member): boolean =>
    trained.length >= generations && !generation.signal.aborted && generation.worldSize === some.length;
  await world.until('all train', () => some.every(isOn));
}

describe('a generation', () => {
  test('links its ranks in the order of the room, and lasts until all have finished', async () => {
    const [ada, bo, cy] = (await training(['Ada', 'Bo', 'Cy'])) as [Member, Member, Member];
    for (const [rank, member] of members.entries()) {
      expect(member.generation).toMatchObject({ run: 1, rank, worldSize: 3, localRank: 0, localWorldSize: 1 });
      expect(member.generation.members.map(({ name }) => name)).toEqual(['Ada', 'Bo', 'Cy']);
      expect(member.generation.links.size).toBe(2);
      expect(member.status.state).toBe('RUNNING');
    }
    const groups = members.map(({ generation }) => new ProcessGroup(generation.mesh, { clock: world.clock }));
    const gathered: unknown[] = [];
    for (const group of groups) void group.allGatherObject(group.rank).then((all) => gathered.push(all));
    await world.until('all have heard', () => gathered.length === 3);
    expect(gathered).toEqual([
      [0, 1, 2],
      [0, 1, 2],
      [0, 1, 2],
    ]);
    ada.finish();
    bo.finish();
    await world.pass(500);
    expect(ada.ended).toEqual([]);
    cy.finish();
    await world.until('the run ends', () => members.every(({ ended }) => ended.length === 1));
    for (const { ended, status, generation } of members) {
      expect(ended).toMatchObject([{ outcome: 'finished' }]);
      expect(status.state).toBe('WAITING');
      expect(generation.signal.aborted).toBe(true);
    }
  });

  test('is aborted and followed by a smaller generation when a member leaves', async () => {
    const [ada, bo, cy] = (await training(['Ada', 'Bo', 'Cy'])) as [Member, Member, Member];
    const [before] = ada.trained;
    bo.rendezvous.leave();
    expect(bo.status).toMatchObject({ state: 'OFFLINE', generation: 0 });
    await trainTogether([ada, cy], 2);
    expect(before!.signal.aborted).toBe(true);
    expect(bo.generation.signal.aborted).toBe(true);
    expect(cy.generation).toMatchObject({ run: 1, rank: 1, worldSize: 2 });
    expect(cy.generation.generation).toBeGreaterThan(before!.generation);
    expect(bo.fatal).toEqual([]);
  });

  test('is followed by a larger generation when a member joins', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    const cy = enter('Cy', { type: 'join', room: ada.room });
    await trainTogether([ada, bo, cy], 1);
    expect(ada.trained).toHaveLength(2);
    expect(cy.generation).toMatchObject({ run: 1, rank: 2 });
  });

  test('ends the run if its ranks begin with different states', async () => {
    const ada = enter('Ada', { type: 'create', job: DEFAULT_JOB, startAt: 2, nodes: null });
    await world.until('the room is open', () => ada.room !== '');
    const bo = enter('Bo', { type: 'join', room: ada.room });
    bo.state = { step: 0, stateHash: 'other' };
    await world.until('the run ends', () => members.every(({ ended }) => ended.length === 1));
    expect(ada.ended).toMatchObject([{ outcome: 'failed' }]);
    expect(ada.trained).toEqual([]);
  });
});

describe('an error in training', () => {
  test("with scope 'rank' excludes the failed rank until it is ready again", async () => {
    const [ada, bo, cy] = (await training(['Ada', 'Bo', 'Cy'])) as [Member, Member, Member];
    bo.scope = 'rank';
    bo.fail(new DataError('Bo has other data.'));
    await trainTogether([ada, cy], 2);
    await world.pass(10_000);
    expect(bo.trained).toHaveLength(1);
    expect(bo.fatal).toEqual([]);
    bo.ready();
    await trainTogether([ada, bo, cy], 2);
  });

  test("with scope 'generation' is followed by another generation of the same ranks", async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    bo.scope = 'generation';
    bo.fail(new PeergradError('A state differs.'));
    await trainTogether([ada, bo], 2);
    expect([...ada.ended, ...bo.ended]).toEqual([]);
  });

  test("with scope 'run' ends the run for all members, who receive the message", async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    bo.fail(new PeergradError('The loss is NaN.'));
    await world.until('the run ends', () => members.every(({ ended }) => ended.length === 1));
    for (const { ended } of [ada, bo]) {
      expect(ended).toMatchObject([
        { outcome: 'failed', message: expect.stringContaining('The loss is NaN.') as string },
      ]);
    }
  });
});

describe('without the server', () => {
  test('members continue to train, and the run ends when all have finished', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    world.stopServer();
    await world.pass(90_000);
    for (const { status, generation, fatal } of members) {
      expect(status).toMatchObject({ state: 'RUNNING', isServerAway: true });
      expect(generation.signal.aborted).toBe(false);
      expect(fatal).toEqual([]);
    }
    ada.finish();
    bo.finish();
    await world.until('the run ends', () => members.every(({ ended }) => ended.length === 1));
    expect(ada.ended).toEqual([
      { outcome: 'finished', message: 'The run has finished here, but the signaling server cannot be reached.' },
    ]);
  });

  test('a fixed world ends when its first link breaks', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'], null)) as [Member, Member];
    world.stopServer();
    await world.pass(1_000);
    bo.port.close();
    await world.until('Ada gives up', () => ada.fatal.length === 1);
    expect(asError(ada.fatal[0]).name).toBe('PeerGoneError');
    expect(ada.status.state).toBe('OFFLINE');
  });

  test('a member that has reconnected repeats the reports that were lost with its previous connection', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    ada.port.cutServer();
    ada.finish();
    bo.finish();
    await world.until('the run ends', () => members.every(({ ended }) => ended.length === 1));
    expect(ada.ended).toMatchObject([{ outcome: 'finished', message: expect.not.stringContaining('away') as string }]);
    expect(ada.status.isServerAway).toBe(false);
  });
});

describe('a member', () => {
  test('reconnects if it missed a change of the room, and never uses an incomplete list of members', async () => {
    const [host, bo] = (await training(['host', 'bo'])) as [Member, Member];
    const rosters: string[][] = [];
    let lost = 0;
    bo.port.isLost = (text) => text.startsWith('{"type":"room-delta"') && ++lost === 1;
    bo.onroster = (roster) => rosters.push(roster.map(({ name }) => name));
    const admissions = bo.admissions;
    for (const name of ['cy', 'di']) {
      enter(name, { type: 'join', room: host.room });
      await world.until(`${name} is in the room`, () => host.roster.some((one) => one.name === name));
    }
    await world.until('bo knows all members', () => bo.roster.length === 4);
    expect(lost).toBeGreaterThan(0);
    expect(bo.admissions).toBe(admissions + 1);
    for (const names of rosters) expect(['host,bo', 'host,bo,cy', 'host,bo,cy,di']).toContain(names.join());
    expect(bo.fatal).toEqual([]);
    await trainTogether(members, bo.trained.length);
  });

  test('is informed when the host removes it, and does not return', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    ada.rendezvous.send({ type: 'remove', member: bo.member });
    await world.pass(1_000);
    expect(bo.fatal.map(({ name }) => name)).toEqual(['RemovedError']);
    await trainTogether([ada], 2);
    await world.pass(30_000);
    expect(ada.roster.map(({ name }) => name)).toEqual(['Ada']);
    expect(bo.status.state).toBe('OFFLINE');
  });

  test('stays in the room after the server has refused a command that only hosts may use', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    bo.rendezvous.send({ type: 'stop' });
    await world.until('Bo is refused', () => bo.refused.length === 1);
    expect([...ada.ended, ...bo.fatal]).toEqual([]);
    expect(bo.generation.signal.aborted).toBe(false);
  });

  test('leaves once even if it calls leave() twice, and learns when the server knows that it has left', async () => {
    const [ada, bo] = (await training(['Ada', 'Bo'])) as [Member, Member];
    bo.rendezvous.leave();
    bo.rendezvous.leave();
    let hasLeft = false;
    void bo.rendezvous.left().then(() => (hasLeft = true));
    await world.until('Bo has left', () => hasLeft && ada.roster.length === 1);
    expect(bo.statuses.filter(({ state }) => state === 'OFFLINE')).toHaveLength(1);
  });
});
