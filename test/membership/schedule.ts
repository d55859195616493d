/**
 * Random schedules: which small action a world takes next. Each is known by its seed, and can be
 * played again from its actions.
 */
import { createRng, mixSeed } from '../../src/util/rng.ts';
import { Violation } from './violation.ts';
import { REAL_PARTS, World, type Parts, type WorldOptions } from './world.ts';

/** What happened, to which client, and how. */
export type Action = readonly [name: ActionName, slot: number, x: number];

const PROGRESS = {
  up: (world: World, slot: number) => world.up(slot),
  down: (world: World, slot: number) => world.down(slot),
  ready: (world: World, slot: number) => world.ready(slot),
  return: (world: World, slot: number) => world.return(slot),
  link: (world: World, slot: number) => world.link(slot),
  enter: (world: World, slot: number) => world.enter(slot),
  compute: (world: World, slot: number) => world.compute(slot),
  apply: (world: World, slot: number) => world.apply(slot),
  finish: (world: World, slot: number) => world.finish(slot),
  bury: (world: World, _: number, x: number) => world.bury(x),
};
const PROGRESS_NAMES = Object.keys(PROGRESS) as (keyof typeof PROGRESS)[];

const ACTIONS = {
  ...PROGRESS,
  // Long stretches in which one client does nothing, or nobody else does anything: what single
  // actions seldom add up to.
  without: (world: World, slot: number, x: number) => goOn(world, 1 + (x % STRETCH), (other) => other !== slot),
  alone: (world: World, slot: number, x: number) => goOn(world, 1 + (x % STRETCH), (other) => other === slot),
  join: (world: World, slot: number) => world.join(slot),
  start: (world: World, slot: number) => world.start(slot),
  stall: (world: World, slot: number, x: number) => world.stall(slot, x),
  slow: (world: World, slot: number) => world.slow(slot),
  fire: (world: World, _: number, x: number) => world.fire(x),
  drop: (world: World, slot: number, x: number) => world.drop(slot, x),
  cutOff: (world: World, slot: number, x: number) => world.cutOff(slot, x),
  crash: (world: World, slot: number) => world.crash(slot),
  leave: (world: World, slot: number) => world.leave(slot),
  freeze: (world: World, slot: number) => world.freeze(slot),
  thaw: (world: World, slot: number) => world.thaw(slot),
  silence: (world: World, slot: number) => world.silence(slot),
  cut: (world: World, _: number, x: number) => world.cut(x),
  fail: (world: World, slot: number, x: number) => world.fail(slot, x),
  stop: (world: World, slot: number) => world.stop(slot),
  hold: (world: World, slot: number) => world.hold(slot),
  resume: (world: World, slot: number) => world.resume(slot),
  remove: (world: World, slot: number, x: number) => world.remove(slot, x),
  restart: (world: World) => world.restart(),
  repeat: (world: World, slot: number, x: number) => world.repeat(slot, x),
  disturb: (world: World, slot: number, x: number) => world.disturb(slot, x),
};
type ActionName = keyof typeof ACTIONS;

/** How often each is tried: most often what brings the world on. */
const WEIGHTS: Record<ActionName, number> = {
  up: 14,
  down: 14,
  ready: 8,
  return: 9,
  link: 9,
  enter: 12,
  compute: 9,
  apply: 7,
  finish: 3,
  bury: 5,
  without: 14,
  alone: 4,
  join: 10,
  start: 4,
  stall: 9,
  slow: 14,
  fire: 9,
  drop: 4,
  cutOff: 4,
  crash: 2,
  leave: 1,
  freeze: 3,
  thaw: 5,
  silence: 4,
  cut: 1,
  fail: 2,
  stop: 0,
  remove: 0,
  hold: 2,
  resume: 3,
  restart: 1,
  repeat: 3,
  disturb: 0,
};
/** Now and then what would end most schedules early, were it in all of them. */
const RARE: Partial<Record<ActionName, number>> = { stop: 2, remove: 2, leave: 4, fail: 4 };
/** A network that comes and goes. */
const PATCHY: Partial<Record<ActionName, number>> = { cut: 6, stall: 24 };
/** What a WebSocket does not do. */
const LOSSY: Partial<Record<ActionName, number>> = { disturb: 8 };

/** Actions by how often they are tried. */
const lottery = (more: Partial<Record<ActionName, number>>): ActionName[] =>
  (Object.keys(WEIGHTS) as ActionName[]).flatMap((name) =>
    Array.from({ length: WEIGHTS[name] + (more[name] ?? 0) }, () => name),
  );
const LOTTERIES = [lottery({}), lottery({}), lottery({}), lottery(RARE), lottery(PATCHY), lottery(LOSSY)];

/** Rooms that schedules take place in. */
const ROOMS: readonly WorldOptions[] = [
  { slots: 3, nodes: { min: 1, max: 3 }, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 1, max: 3 }, startAt: null, hasRelay: true },
  { slots: 3, nodes: { min: 2, max: 3 }, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 1, max: 2 }, startAt: null, hasRelay: false },
  { slots: 3, nodes: null, startAt: 2, hasRelay: false },
  { slots: 3, nodes: { min: 2, max: 2 }, startAt: 1, hasRelay: false },
  // The smallest ring that has other orders.
  { slots: 4, nodes: { min: 1, max: 4 }, startAt: 4, hasRelay: false },
];

/** Actions in a row at most, where one client is left out or alone. */
const STRETCH = 16;
/** Stretches a schedule begins with before anything goes wrong, at most. */
const CALM = 3;
/** Actions tried after that, faults among them, at most: about half of them can happen. */
const TRIES = 60;
/**
 * Bursts of actions in which every schedule comes to rest once faults have stopped: some need 60.
 */
const REST = 1000;

export interface Outcome {
  options: WorldOptions;
  actions: Action[];
  /** Actions between two looks at whether newcomers may come in, in the end. */
  burst: number;
  violation: Violation | null;
  world: World;
}

/**
 * Takes the actions that bring the world on, in turn, at most `limit` of them. Whether there were
 * any.
 */
function goOn(world: World, limit: number, isOne: (slot: number) => boolean = () => true): boolean {
  let left = limit;
  for (let moved = true; moved && left > 0;) {
    moved = false;
    for (const name of PROGRESS_NAMES) {
      for (let slot = 0; slot < world.clients.length && left > 0; slot++) {
        if (!isOne(slot) || !PROGRESS[name](world, slot, 0)) continue;
        moved = true;
        left--;
      }
    }
  }
  return left < limit;
}

/** No more faults: the world has to come to rest, and nobody may be left waiting. */
function comeToRest(world: World, burst: number): void {
  world.heal();
  for (let bursts = 0; bursts < REST; bursts++) {
    // Newcomers come in when they may, in the middle of whatever goes on.
    if (goOn(world, burst)) {
      world.grow();
      continue;
    }
    // Links that nobody answers are noticed first, then the host lets the run go on, then whatever
    // timer is due.
    const slots = [...world.clients.keys()];
    const isNoticed = slots.some((slot) => world.stall(slot, 1)) || slots.some((slot) => world.resume(slot));
    if (!isNoticed && !world.fireNext()) {
      const waiting = world.unfinished();
      if (waiting !== null && !world.isLossy) throw new Violation('I7', waiting);
      return;
    }
  }
  // A member that has missed a message, which no WebSocket loses, may ask again without end.
  if (!world.isLossy) throw new Violation('I7', 'it never comes to rest');
}

/** The schedule of a seed. */
export function playSeed(seed: number, parts: Parts = REAL_PARTS): Outcome {
  const rng = createRng(mixSeed(seed));
  const room = ROOMS[rng.below(ROOMS.length)]!;
  const { slots } = room;
  return play(room, 6 + rng.below(40), parts, (perform) => {
    // A run that starts by itself has all it waits for.
    for (let slot = Math.max((room.startAt ?? 0) - 1, 1 + rng.below(slots - 1)); slot >= 0; slot--) {
      perform(['join', slot, 0]);
      perform(['without', slots, STRETCH - 1]);
    }
    perform(['start', 0, 0]);
    for (let stretches = rng.below(CALM); stretches > 0; stretches--) perform(['without', slots, rng.below(256)]);
    const names = LOTTERIES[rng.below(LOTTERIES.length)]!;
    for (let tries = rng.below(TRIES); tries > 0; tries--) {
      perform([names[rng.below(names.length)]!, rng.below(slots), rng.below(256)]);
    }
  });
}

/** The same again, from its actions; those that cannot happen any more do not. */
export function playActions(like: Outcome, actions: readonly Action[], parts: Parts = REAL_PARTS): Outcome {
  return play(like.options, like.burst, parts, (perform) => actions.forEach(perform));
}

function play(
  options: WorldOptions,
  burst: number,
  parts: Parts,
  script: (perform: (action: Action) => void) => void,
): Outcome {
  const world = new World(options, parts);
  const outcome: Outcome = { options, actions: [], burst, violation: null, world };
  try {
    script((action) => {
      const [name, slot, x] = action;
      outcome.actions.push(action);
      if (!ACTIONS[name](world, slot, x)) outcome.actions.pop();
    });
    comeToRest(world, burst);
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    outcome.violation = error;
  }
  return outcome;
}

/** As few of a failing schedule's actions as break the same law. */
export function shrink(failing: Outcome, parts: Parts = REAL_PARTS): Outcome {
  const law = failing.violation?.law;
  let best = failing;
  for (let size = best.actions.length >> 1; size > 0; size = size === 1 ? 0 : (size + 1) >> 1) {
    for (let at = 0; at < best.actions.length;) {
      const fewer = [...best.actions.slice(0, at), ...best.actions.slice(at + size)];
      const outcome = playActions(failing, fewer, parts);
      if (outcome.violation?.law === law) best = outcome;
      else at += size;
    }
  }
  return best;
}

/** For people: what was broken, and how to get there again. */
export function describeFailure(seed: number, { options, actions, burst, violation }: Outcome): string {
  const events = actions.map(([name, slot, x]) => `${name} ${slot} ${x}`).join(', ');
  return `seed ${seed}: ${violation?.message}\n  room ${JSON.stringify(options)}, bursts of ${burst}\n  ${events}`;
}
