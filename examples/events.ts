/** Events that the examples' page sends to a launcher. */
export type ExampleEvent =
  /** This tab has opened a room for `worldSize` tabs. */
  | { type: 'room'; room: string; worldSize: number }
  | { type: 'joined'; rank: number }
  | { type: 'line'; line: string }
  | { type: 'finished' }
  | { type: 'failed'; message: string };
