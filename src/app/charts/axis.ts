/** What the charts of a run share: the axis, and the step under the pointer. */

export type XAxis = 'step' | 'time';

/** The step under the pointer and its view, which moves its own crosshair. */
export interface Pointed {
  step: number;
  by: 'charts' | 'timeline';
}
