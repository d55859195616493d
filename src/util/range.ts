/** The elements start .. end-1 of a flat array. */
export interface ElementRange {
  readonly start: number;
  readonly end: number;
}
