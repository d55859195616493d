/** What a suite of comparisons is. */

/**
 * One subject. Its inputs and results go to the function of the same name in reference.py, which
 * says how far PyTorch's are from them.
 */
export interface Suite {
  readonly name: string;
  /** The largest difference that is float32 rounding, of any of its cases. */
  readonly tolerance: number;
  /**
   * What reference.py needs: inputs, and this project's results. JSON; numbers that are not finite
   * as strings.
   */
  compute(): Promise<object>;
}
