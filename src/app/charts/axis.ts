/** What the charts of a run share: their axis, and the step that is pointed at. */

export type XAxis = 'step' | 'time';

/** A step that is pointed at, and where: who points moves its own crosshair. */
export interface Pointed {
  step: number;
  by: 'charts' | 'timeline';
}
