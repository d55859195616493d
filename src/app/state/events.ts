import type { EngineEvent } from '../../protocol/events.ts';

/** Engine events of these types. */
export type EventOf<Type extends EngineEvent['type']> = Extract<EngineEvent, { type: Type }>;
