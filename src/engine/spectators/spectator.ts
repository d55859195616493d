/**
 * A tab that only watches: emits the events of its page from rank 0's updates. An update may repeat
 * events, and updates may be missed; each event is emitted once.
 */
import type { ServerMessage } from '../../protocol/control.ts';
import type { EngineEvent } from '../../protocol/events.ts';
import { parseSpectatorUpdate, type SpectatorEvent } from '../../protocol/spectatorUpdate.ts';
import { RunOverError } from '../../util/errors.ts';

type Room = Extract<ServerMessage, { type: 'room' }>;
type Ended = Extract<ServerMessage, { type: 'ended' }>;

export class Spectator {
  readonly #emit: (event: EngineEvent) => void;
  /** The run that is shown; 0 before the first. */
  #run = 0;
  #generation = 0;
  /** The latest step shown of each kind of event. */
  readonly #shown = new Map<SpectatorEvent['type'], number>();
  /** The event that is emitted when the run has finished. */
  #finished: Extract<SpectatorEvent, { type: 'finished' | 'lesson' }> | null = null;

  constructor(emit: (event: EngineEvent) => void) {
    this.#emit = emit;
  }

  receive(update: string): void {
    for (const event of parseSpectatorUpdate(update)) this.#show(event);
  }

  /** This tab may have missed the end of the run. */
  follow({ run, phase }: Room): void {
    const isOver = run > this.#run || (run === this.#run && phase === 'FORMING');
    if (isOver) this.end('stopped', 'This run was over when this tab found the room again.');
  }

  end(outcome: Ended['outcome'], message: string): void {
    if (this.#run === 0) return;
    const finished = this.#finished;
    this.#run = 0;
    this.#finished = null;
    if (outcome === 'finished' && finished) this.#emit(finished);
    else this.#emit({ type: 'failed', name: RunOverError.name, message, fatal: false });
  }

  #show(event: SpectatorEvent): void {
    if (event.type === 'generation') return this.#begin(event);
    // Until the head of the run is known.
    if (this.#run === 0) return;
    if (event.type === 'finished') {
      this.#finished = event;
      return;
    }
    // A lesson's last state may be missing.
    if (event.type === 'lesson') this.#finished = { ...event, state: { ...event.state, isOver: true } };
    if ('step' in event) {
      if (event.step <= (this.#shown.get(event.type) ?? -1)) return;
      this.#shown.set(event.type, event.step);
    }
    this.#emit(event);
  }

  #begin(event: Extract<SpectatorEvent, { type: 'generation' }>): void {
    const { run, generation } = event;
    if (run === this.#run && generation === this.#generation) return;
    if (run !== this.#run) this.#shown.clear();
    this.#run = run;
    this.#generation = generation;
    this.#emit(event);
  }
}
