/** Elements `start` up to but without `end` of a flat array. */
export interface Range {
  readonly start: number;
  readonly end: number;
}
