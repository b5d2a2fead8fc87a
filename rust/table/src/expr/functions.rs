//! Syntax tree -> logical expression: DataFusion's planner with its scalar functions and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::DataType;
use datafusion_common::config::ConfigOptions;
use datafusion_common::tree_node::TreeNode;
use datafusion_common::{DFSchema, Result, TableReference, plan_err};
use datafusion_expr::planner::{ContextProvider, ExprPlanner};
use datafusion_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, Volatility, WindowUDF};
use datafusion_functions::core::planner::CoreFunctionPlanner;
use datafusion_functions::datetime::planner::DatetimeFunctionPlanner;
use datafusion_functions::unicode::planner::UnicodeFunctionPlanner;
use datafusion_functions_nested::planner::{FieldAccessPlanner, NestedFunctionPlanner};
use datafusion_sql::planner::{ParserOptions, PlannerContext, SqlToRel};
use datafusion_sql::sqlparser::ast;

use super::literals;

/// All functions by name and alias, and the hooks that turn special syntax (`EXTRACT`, `a.b`, `l[1]`) into calls.
#[derive(Debug)]
struct Catalogue {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    higher_order: HashMap<String, Arc<HigherOrderUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
}

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(Catalogue::new);

/// The logical expression of a syntax tree. Names are taken as they are, case and all; fractions are casts of texts.
pub(super) fn plan(mut expr: ast::Expr, schema: &DFSchema) -> Result<Expr> {
    let options =
        ParserOptions::new().with_enable_ident_normalization(false).with_map_string_types_to_utf8view(false);
    literals::keep_texts(&mut expr);
    SqlToRel::new_with_options(&*CATALOGUE, options).sql_to_expr(expr, schema, &mut PlannerContext::new())
}

/// Whether functions are called whose values are those of the time at which an expression is planned.
pub(super) fn depends_on_time(expr: &Expr) -> Result<bool> {
    expr.exists(|part| match part {
        Expr::ScalarFunction(call) => Ok(call.func.signature().volatility == Volatility::Stable),
        _ => Ok(false),
    })
}

impl Catalogue {
    fn new() -> Self {
        let mut scalar = HashMap::new();
        let all = datafusion_functions::all_default_functions();
        for function in all.into_iter().chain(datafusion_functions_nested::all_default_nested_functions()) {
            for alias in function.aliases() {
                scalar.insert(alias.clone(), Arc::clone(&function));
            }
            scalar.insert(function.name().to_owned(), function);
        }
        for function in crate::json::functions() {
            scalar.insert(function.name().to_owned(), Arc::new(function));
        }
        let higher_order = datafusion_functions_nested::all_default_higher_order_functions()
            .into_iter()
            .map(|f| (f.name().to_owned(), f))
            .collect();
        let planners: Vec<Arc<dyn ExprPlanner>> = vec![
            Arc::new(CoreFunctionPlanner::default()),
            Arc::new(DatetimeFunctionPlanner),
            Arc::new(UnicodeFunctionPlanner),
            Arc::new(NestedFunctionPlanner),
            Arc::new(FieldAccessPlanner),
        ];
        Self { scalar, higher_order, planners, options: ConfigOptions::default() }
    }
}

impl ContextProvider for Catalogue {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("an expression cannot name a table ({name})")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.scalar.get(name).or_else(|| self.scalar.get(&name.to_lowercase())).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.higher_order.get(name).or_else(|| self.higher_order.get(&name.to_lowercase())).cloned()
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.scalar.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.higher_order.keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}
