/** What the page uses of vendor/uplot, which defines a global name. */

export interface Options {
  width: number;
  height: number;
  padding: number[];
  legend: { show: boolean };
  cursor: { sync: { key: string }; y: boolean; points: { size: number }; drag: { x: boolean; y: boolean } };
  hooks: { setCursor: (() => void)[] };
  scales: { y: { range: (plot: Plot, low: number | null, high: number | null) => [number, number] } };
  axes: Axis[];
  series: Series[];
}

export interface Axis {
  stroke: () => string;
  grid: { show?: boolean; stroke?: () => string; width?: number };
  ticks: { show: boolean };
  font: string;
  size: number;
  space: number;
  incrs?: number[];
  values: (plot: Plot, splits: number[], axis: number, space: number, step: number) => string[];
}

export interface Series {
  label?: string;
  width?: number;
  stroke?: () => string;
  fill?: () => string;
  points?: { show: boolean };
  spanGaps?: boolean;
}

/** Times, and the values of each line. */
export type Columns = (number | null)[][];

export interface Plot {
  readonly cursor: { left?: number; idx?: number | null };
  setSize(size: { width: number; height: number }): void;
  setData(columns: Columns): void;
  redraw(rebuildsPaths: boolean): void;
  destroy(): void;
}

declare global {
  var uPlot: new (options: Options, columns: Columns, place: HTMLElement) => Plot;
}
