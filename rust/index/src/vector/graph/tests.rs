use std::collections::BTreeSet;

use pennon_core::Result;

use super::search::FoundNode;
use super::*;
use crate::vector::matrix::narrowed;
use crate::vector::random::Random;

fn points(count: usize, dimension: usize, seed: u64) -> Vec<Vec<f32>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| (0..dimension).map(|_| narrowed(random.unit())).collect()).collect()
}

fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

impl NodeDistances for &[Vec<f32>] {
    fn fill(&self, from: u32, nodes: &[u32], to: &mut [f32]) {
        fill_distances(self, &self[from as usize], nodes, to).unwrap();
    }

    fn are_those_of_searches(&self) -> bool {
        true
    }
}

fn fill_distances(points: &[Vec<f32>], query: &[f32], nodes: &[u32], to: &mut [f32]) -> Result<()> {
    to.iter_mut().zip(nodes).for_each(|(to, node)| *to = distance(&points[*node as usize], query));
    Ok(())
}

fn built(points: &[Vec<f32>], options: GraphOptions, threads: usize) -> Graph {
    build(u32::try_from(points.len()).unwrap(), options, threads, points)
}

const SMALL: GraphOptions = GraphOptions { m: 8, ef_construction: 50, max_level: 4 };

#[test]
fn graphs_are_well_formed_for_any_threads() {
    let points = points(1500, 6, 1);
    for threads in [1, 3] {
        let graph = built(&points, SMALL, threads);
        assert_eq!(graph.len(), 1500);
        assert!((2..=4).contains(&graph.levels.len()));
        assert!(graph.memory_bytes() > 1500 * 4);
        for (number, level) in graph.levels.iter().enumerate() {
            let nodes = level.nodes.clone().unwrap_or_else(|| (0..1500).collect());
            assert_eq!(nodes.len(), level.len());
            let most = if number == 0 { 16 } else { 8 };
            for node in nodes {
                let neighbors = level.neighbors(node);
                assert!(neighbors.len() <= most && !neighbors.contains(&node));
                assert_eq!(neighbors.iter().collect::<BTreeSet<_>>().len(), neighbors.len());
                assert!(
                    neighbors
                        .iter()
                        .all(|other| number == 0 || level.nodes.as_ref().unwrap().contains(other))
                );
                assert!(!neighbors.is_empty() || level.len() == 1);
            }
        }
        let top = graph.levels.last().unwrap();
        assert!(top.nodes.as_ref().unwrap().contains(&graph.entry));
    }
    assert_eq!(built(&points, SMALL, 1), built(&points, SMALL, 1));
}

/// The share of the nearest nodes that are found, of nodes that pass.
fn recall(
    points: &[Vec<f32>],
    graph: &Graph,
    queries: &[Vec<f32>],
    ef: usize,
    passes: fn(u32) -> bool,
) -> f64 {
    let mut hits = 0;
    for query in queries {
        let fill = |nodes: &[u32], to: &mut [f32]| fill_distances(points, query, nodes, to);
        let found = search(graph, ef, &fill, &|found| passes(found.node)).unwrap();
        assert!(found.is_sorted() && found.iter().all(|found| passes(found.node)));
        let mut all: Vec<FoundNode> = (0..u32::try_from(points.len()).unwrap())
            .filter(|node| passes(*node))
            .map(|node| FoundNode { distance: distance(&points[node as usize], query), node })
            .collect();
        all.sort_unstable();
        hits += found.iter().take(10).filter(|found| all[..10].contains(found)).count();
    }
    hits as f64 / (10 * queries.len()) as f64
}

#[test]
fn most_of_the_nearest_are_found() {
    let points = points(3000, 8, 2);
    let queries = self::points(40, 8, 3);
    for threads in [1, 2] {
        let graph = built(&points, GraphOptions { m: 12, ef_construction: 80, max_level: 5 }, threads);
        let broad = recall(&points, &graph, &queries, 100, |_| true);
        let narrow = recall(&points, &graph, &queries, 10, |_| true);
        assert!(broad >= 0.97 && narrow >= 0.7 && narrow <= broad, "{narrow} {broad}");
        let masked = recall(&points, &graph, &queries, 100, |node| node % 3 == 0);
        assert!(masked >= 0.95, "{masked}");
    }
}

#[test]
fn nodes_without_a_distance_are_the_farthest() {
    let points = points(1500, 6, 1);
    let graph = built(&points, SMALL, 1);
    for nan in [f32::NAN, -f32::NAN] {
        let fill = |nodes: &[u32], to: &mut [f32]| {
            to.iter_mut().zip(nodes).for_each(|(to, node)| *to = if node % 2 == 0 { nan } else { 1.0 });
            Ok(())
        };
        let found = search(&graph, 20, &fill, &|found| !found.distance.is_nan()).unwrap();
        assert!(found.len() == 20 && found.iter().all(|found| found.node % 2 == 1));
    }
}

#[test]
fn equal_points_and_few_points() {
    let same = vec![vec![1.0_f32; 4]; 300];
    let graph = built(&same, SMALL, 2);
    let fill = |nodes: &[u32], to: &mut [f32]| fill_distances(&same, &same[0], nodes, to);
    let found = search(&graph, 20, &fill, &|_| true).unwrap();
    assert_eq!(found.len(), 20);
    for count in [1, 2, 3] {
        let points = points(count, 4, 5);
        let graph = built(&points, SMALL, 2);
        let fill = |nodes: &[u32], to: &mut [f32]| fill_distances(&points, &points[0], nodes, to);
        let found = search(&graph, 5, &fill, &|_| true).unwrap();
        assert_eq!((found.len(), found[0].node), (count, 0));
    }
}

/// The reference up to 10.0 searches as many levels as there may be.
#[test]
fn rows_have_offsets_of_all_levels_there_may_be() {
    let points = points(200, 4, 2);
    let options = GraphOptions { m: 20, ef_construction: 30, max_level: 7 };
    let graph = built(&points, options, 1);
    assert!(graph.levels.len() < 7);
    let rows = GraphRows::of(&graph, options, |_, _| 0.0).unwrap();
    let text: serde_json::Value = serde_json::from_str(&rows.text).unwrap();
    let offsets = text["level_offsets"].as_array().unwrap();
    assert_eq!(offsets.len(), 8);
    assert_eq!(offsets.last().unwrap().as_u64(), Some(rows.batch.num_rows() as u64));
}
